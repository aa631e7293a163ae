# Tests of this area; included by tests/local.mk.
BASE_TESTS = tests/base/t_checked tests/base/t_le tests/base/t_error \
	tests/base/t_file tests/base/t_json tests/base/t_cli
check_PROGRAMS += $(BASE_TESTS)
TESTS += $(BASE_TESTS)
BASE_TEST_LIBS = libbase.a $(JANSSON_LIBS)
tests_base_t_checked_SOURCES = %reldir%/base/t_checked.c
tests_base_t_checked_LDADD = $(BASE_TEST_LIBS)
tests_base_t_le_SOURCES = %reldir%/base/t_le.c
tests_base_t_le_LDADD = $(BASE_TEST_LIBS)
tests_base_t_error_SOURCES = %reldir%/base/t_error.c
tests_base_t_error_LDADD = $(BASE_TEST_LIBS)
tests_base_t_file_SOURCES = %reldir%/base/t_file.c
tests_base_t_file_LDADD = $(BASE_TEST_LIBS)
tests_base_t_json_SOURCES = %reldir%/base/t_json.c
tests_base_t_json_LDADD = $(BASE_TEST_LIBS)
tests_base_t_cli_SOURCES = %reldir%/base/t_cli.c
tests_base_t_cli_LDADD = $(BASE_TEST_LIBS)
