dnl SPDX-License-Identifier: Apache-2.0
dnl LODE_COMPILER_FLAGS: warnings, --enable-werror, --enable-sanitizer,
dnl --enable-fuzzer.  Flags are tried one by one; LODE_CFLAGS is ours, CFLAGS
dnl stays the user's.

AC_DEFUN([LODE_TRY_CFLAG], [
  lode_saved_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -Werror $1"
  AC_MSG_CHECKING([whether $CC takes $1])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[]], [[]])],
    [AC_MSG_RESULT([yes]); $2="$$2 $1"], [AC_MSG_RESULT([no])])
  CFLAGS=$lode_saved_CFLAGS
])

AC_DEFUN([LODE_COMPILER_FLAGS], [
  LODE_CFLAGS="-std=gnu11"
  m4_foreach_w([lode_flag],
    [-Wall -Wextra -Wshadow -Wvla -Wundef -Wformat=2 -Wpointer-arith
     -Wwrite-strings -Wcast-align -Wsign-compare -Wconversion
     -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
     -Wimplicit-fallthrough -Wno-sign-conversion
     -ffp-contract=off -fno-fast-math -fstack-protector-strong],
    [LODE_TRY_CFLAG(lode_flag, [LODE_CFLAGS])])
  LODE_LDFLAGS=

  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [treat warnings as errors])])
  AS_IF([test "x$enable_werror" = xyes], [LODE_CFLAGS="$LODE_CFLAGS -Werror"])

  AC_ARG_ENABLE([sanitizer],
    [AS_HELP_STRING([--enable-sanitizer=LIST], [build with -fsanitize=LIST])],
    [], [enable_sanitizer=no])
  AS_IF([test "x$enable_sanitizer" != xno], [
    lode_san="-fsanitize=$enable_sanitizer -fno-omit-frame-pointer -fno-sanitize-recover=all"
    LODE_CFLAGS="$LODE_CFLAGS $lode_san"
    LODE_LDFLAGS="$LODE_LDFLAGS -fsanitize=$enable_sanitizer"])
  AM_CONDITIONAL([SANITIZER], [test "x$enable_sanitizer" != xno])

  AC_ARG_ENABLE([fuzzer],
    [AS_HELP_STRING([--enable-fuzzer], [build libFuzzer targets (clang)])])
  AS_IF([test "x$enable_fuzzer" = xyes],
    [LODE_CFLAGS="$LODE_CFLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"
     LODE_LDFLAGS="$LODE_LDFLAGS -fsanitize=address,undefined"])
  AM_CONDITIONAL([FUZZER], [test "x$enable_fuzzer" = xyes])

  AC_SUBST([LODE_CFLAGS])
  AC_SUBST([LODE_LDFLAGS])
])
