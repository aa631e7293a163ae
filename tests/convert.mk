# Tests of the converter and of the program lode.
EXTRA_DIST += %reldir%/fixtures %reldir%/models %reldir%/cli/checkpoint.sh

check_PROGRAMS += tests/gen/mutate
tests_gen_mutate_SOURCES = %reldir%/gen/mutate.c
tests_gen_mutate_LDADD = $(JANSSON_LIBS)

CONVERT_CLI_TESTS = \
	tests/cli/t_lode.sh tests/cli/t_convert.sh tests/cli/t_info.sh \
	tests/cli/t_verify.sh tests/cli/t_extract.sh \
	tests/cli/t_cases_header.sh tests/cli/t_cases_shards.sh \
	tests/cli/t_cases_model.sh
TESTS += $(CONVERT_CLI_TESTS)
dist_check_SCRIPTS += $(CONVERT_CLI_TESTS)
