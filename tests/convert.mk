# Tests of the converter and of the program lode.
EXTRA_DIST += %reldir%/fixtures %reldir%/models %reldir%/cli/checkpoint.sh

check_PROGRAMS += tests/gen/mutate
tests_gen_mutate_SOURCES = %reldir%/gen/mutate.c
tests_gen_mutate_LDADD = $(JANSSON_LIBS)

CONVERT_CLI_TESTS = \
	tests/cli/t_lode.sh tests/cli/t_convert.sh tests/cli/t_info.sh \
	tests/cli/t_verify.sh tests/cli/t_extract.sh \
	tests/cli/t_repair.sh tests/cli/t_diff.sh tests/cli/t_statement.sh \
	tests/cli/t_flips.sh tests/cli/t_codec.sh tests/cli/t_resume.sh \
	tests/cli/t_consume.sh \
	tests/cli/t_cases_header.sh tests/cli/t_cases_shards.sh \
	tests/cli/t_cases_model.sh tests/cli/t_estimate.sh tests/cli/t_repack.sh
TESTS += $(CONVERT_CLI_TESTS)
dist_check_SCRIPTS += $(CONVERT_CLI_TESTS)

CONVERT_TEST_LIBS = libconvert.a libformat.a libbase.a $(JANSSON_LIBS) \
	$(XXHASH_LIBS) $(ZSTD_LIBS) $(CRYPTO_LIBS) -lm
CONVERT_TESTS = tests/convert/t_values tests/convert/t_safetensors tests/convert/t_checkpoint \
	tests/convert/t_naming tests/convert/t_plan \
	tests/convert/t_pipeline tests/convert/t_restore \
	tests/convert/t_measure
check_PROGRAMS += $(CONVERT_TESTS)
TESTS += $(CONVERT_TESTS)

BUILD = %reldir%/convert/build.c %reldir%/convert/build.h
tests_convert_t_values_SOURCES = %reldir%/convert/t_values.c $(TINY)
tests_convert_t_values_LDADD = $(CONVERT_TEST_LIBS)
tests_convert_t_safetensors_SOURCES = %reldir%/convert/t_safetensors.c
tests_convert_t_safetensors_LDADD = $(CONVERT_TEST_LIBS)
tests_convert_t_checkpoint_SOURCES = %reldir%/convert/t_checkpoint.c $(BUILD)
tests_convert_t_checkpoint_LDADD = $(CONVERT_TEST_LIBS)
tests_convert_t_naming_SOURCES = %reldir%/convert/t_naming.c $(BUILD)
tests_convert_t_naming_LDADD = $(CONVERT_TEST_LIBS)
tests_convert_t_pipeline_SOURCES = %reldir%/convert/t_pipeline.c $(BUILD)
tests_convert_t_pipeline_LDADD = $(CONVERT_TEST_LIBS)
tests_convert_t_restore_SOURCES = %reldir%/convert/t_restore.c $(BUILD)
tests_convert_t_restore_LDADD = $(CONVERT_TEST_LIBS)
tests_convert_t_measure_SOURCES = %reldir%/convert/t_measure.c
tests_convert_t_measure_LDADD = $(CONVERT_TEST_LIBS)
tests_convert_t_plan_SOURCES = %reldir%/convert/t_plan.c $(BUILD)
tests_convert_t_plan_LDADD = $(CONVERT_TEST_LIBS)

SAFETENSORS_FUZZ = %reldir%/fuzz/fuzz_safetensors.c %reldir%/fuzz/fuzz.h \
	%reldir%/convert/small.h
check_PROGRAMS += tests/fuzz/replay_safetensors
TESTS += tests/fuzz/replay_safetensors
tests_fuzz_replay_safetensors_SOURCES = %reldir%/fuzz/replay.c \
	$(SAFETENSORS_FUZZ)
tests_fuzz_replay_safetensors_LDADD = $(CONVERT_TEST_LIBS)
if FUZZER
check_PROGRAMS += tests/fuzz/fuzz_safetensors
else
EXTRA_PROGRAMS += tests/fuzz/fuzz_safetensors
endif
tests_fuzz_fuzz_safetensors_SOURCES = $(SAFETENSORS_FUZZ)
tests_fuzz_fuzz_safetensors_LDADD = $(CONVERT_TEST_LIBS)
tests_fuzz_fuzz_safetensors_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer

check_PROGRAMS += tests/fault/t_convert_fault
TESTS += tests/fault/t_convert_fault
tests_fault_t_convert_fault_SOURCES = %reldir%/fault/t_convert_fault.c \
	%reldir%/convert/small.h $(BUILD) $(WRAP)
tests_fault_t_convert_fault_LDADD = $(CONVERT_TEST_LIBS)
tests_fault_t_convert_fault_LDFLAGS = $(AM_LDFLAGS) $(FAULT_WRAP)
