# Arithmetic and threads.
check_PROGRAMS += tests/runtime/t_kernels tests/runtime/t_math \
	tests/runtime/t_team
TESTS += tests/runtime/t_kernels tests/runtime/t_math tests/runtime/t_team
tests_runtime_t_kernels_SOURCES = %reldir%/runtime/t_kernels.c
tests_runtime_t_kernels_LDADD = libkernels.a libformat.a libbase.a
tests_runtime_t_math_SOURCES = %reldir%/runtime/t_math.c
tests_runtime_t_math_LDADD = libkernels.a libbase.a
tests_runtime_t_team_SOURCES = %reldir%/runtime/t_team.c
tests_runtime_t_team_LDADD = libkernels.a libbase.a

# Not a test: make tests/bench/bench_kernels, then run it.
EXTRA_PROGRAMS += tests/bench/bench_kernels
tests_bench_bench_kernels_SOURCES = %reldir%/bench/bench_kernels.c
tests_bench_bench_kernels_LDADD = libkernels.a libformat.a libbase.a

# The AVX-512 file with its intrinsics spelled out, for machines without them.
if X86
check_PROGRAMS += tests/runtime/t_avx512
TESTS += tests/runtime/t_avx512
tests_runtime_t_avx512_SOURCES = %reldir%/runtime/t_kernels.c \
	%reldir%/runtime/avx512_emulated.c
tests_runtime_t_avx512_CPPFLAGS = $(AM_CPPFLAGS) -DTABLE=rt_kernels_emulated
tests_runtime_t_avx512_CFLAGS = $(AM_CFLAGS) -Wno-psabi
tests_runtime_t_avx512_LDADD = libkernels.a libformat.a libbase.a
endif
