# Tests of this area; included by tests/local.mk.
TINY = %reldir%/format/tiny.c %reldir%/format/tiny.h
PATCH = $(TINY) %reldir%/format/patch.c %reldir%/format/patch.h
FORMAT_TEST_LIBS = libformat.a libbase.a $(XXHASH_LIBS) $(CRYPTO_LIBS) -lm

FORMAT_TESTS = tests/format/t_layout tests/format/t_digest \
	tests/format/t_encoding tests/format/t_index_only \
	tests/format/t_index tests/format/t_reader tests/format/t_verify \
	tests/format/t_writer
check_PROGRAMS += $(FORMAT_TESTS)
TESTS += $(FORMAT_TESTS)

tests_format_t_layout_SOURCES = %reldir%/format/t_layout.c
tests_format_t_layout_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_digest_SOURCES = %reldir%/format/t_digest.c
tests_format_t_digest_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_encoding_SOURCES = %reldir%/format/t_encoding.c
tests_format_t_encoding_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_index_only_SOURCES = %reldir%/format/t_index_only.c $(TINY)
tests_format_t_index_only_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_index_SOURCES = %reldir%/format/t_index.c $(PATCH)
tests_format_t_index_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_reader_SOURCES = %reldir%/format/t_reader.c $(PATCH)
tests_format_t_reader_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_verify_SOURCES = %reldir%/format/t_verify.c $(PATCH)
tests_format_t_verify_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_writer_SOURCES = %reldir%/format/t_writer.c $(TINY)
tests_format_t_writer_LDADD = $(FORMAT_TEST_LIBS)
