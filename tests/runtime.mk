# The engine and lode-run.
ENGINE_LIBS = libengine.a libtext.a libkernels.a libformat.a libbase.a \
	$(XXHASH_LIBS) $(JANSSON_LIBS) $(PCRE2_LIBS) -lm

check_PROGRAMS += tests/runtime/golden
tests_runtime_golden_SOURCES = %reldir%/runtime/golden.c
tests_runtime_golden_LDADD = $(ENGINE_LIBS)

RUN_TESTS = tests/cli/t_golden.sh tests/cli/t_same.sh tests/cli/t_memory.sh \
	tests/cli/t_damage.sh
TESTS += $(RUN_TESTS)
dist_check_SCRIPTS += $(RUN_TESTS)
