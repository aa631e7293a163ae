# Tests of this area; included by tests/local.mk.
TINY = %reldir%/format/tiny.c %reldir%/format/tiny.h
FORMAT_TEST_LIBS = libformat.a libbase.a $(XXHASH_LIBS) $(CRYPTO_LIBS) -lm

check_PROGRAMS += tests/format/t_index_only
tests_format_t_index_only_SOURCES = %reldir%/format/t_index_only.c $(TINY)
tests_format_t_index_only_LDADD = $(FORMAT_TEST_LIBS)
TESTS += tests/format/t_index_only
