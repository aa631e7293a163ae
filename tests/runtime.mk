# The engine and lode-run.
ENGINE_LIBS = libengine.a libtext.a libkernels.a libformat.a libbase.a \
	$(XXHASH_LIBS) $(ZSTD_LIBS) $(JANSSON_LIBS) $(PCRE2_LIBS) -lm

check_PROGRAMS += tests/runtime/golden
tests_runtime_golden_SOURCES = %reldir%/runtime/golden.c
tests_runtime_golden_LDADD = $(ENGINE_LIBS)

RUNTIME_UNITS = tests/runtime/t_config tests/runtime/t_route \
	tests/runtime/t_cache
check_PROGRAMS += $(RUNTIME_UNITS)
TESTS += $(RUNTIME_UNITS)
tests_runtime_t_config_SOURCES = %reldir%/runtime/t_config.c
tests_runtime_t_config_LDADD = $(ENGINE_LIBS)
tests_runtime_t_route_SOURCES = %reldir%/runtime/t_route.c
tests_runtime_t_route_LDADD = $(ENGINE_LIBS)
tests_runtime_t_cache_SOURCES = %reldir%/runtime/t_cache.c
tests_runtime_t_cache_LDADD = $(ENGINE_LIBS)

check_PROGRAMS += tests/runtime/session
tests_runtime_session_SOURCES = %reldir%/runtime/session.c $(WRAP)
tests_runtime_session_LDADD = $(ENGINE_LIBS)
tests_runtime_session_LDFLAGS = $(AM_LDFLAGS) $(FAULT_WRAP)

check_PROGRAMS += tests/gen/rewrite
tests_gen_rewrite_SOURCES = %reldir%/gen/rewrite.c $(PATCH)
tests_gen_rewrite_LDADD = $(FORMAT_TEST_LIBS)

RUN_TESTS = tests/cli/t_golden.sh tests/cli/t_same.sh tests/cli/t_memory.sh \
	tests/cli/t_damage.sh tests/cli/t_session.sh tests/cli/t_plan.sh \
	tests/cli/t_scale.sh tests/cli/t_cases_run.sh \
	tests/cli/t_run_packed.sh tests/cli/t_run_sets.sh
TESTS += $(RUN_TESTS)
dist_check_SCRIPTS += $(RUN_TESTS)

CONFIG_FUZZ = %reldir%/fuzz/fuzz_config.c %reldir%/fuzz/fuzz.h
check_PROGRAMS += tests/fuzz/replay_config
TESTS += tests/fuzz/replay_config
tests_fuzz_replay_config_SOURCES = %reldir%/fuzz/replay.c $(CONFIG_FUZZ)
tests_fuzz_replay_config_LDADD = $(ENGINE_LIBS)
EXTRA_PROGRAMS += tests/fuzz/fuzz_config
tests_fuzz_fuzz_config_SOURCES = $(CONFIG_FUZZ)
tests_fuzz_fuzz_config_LDADD = $(ENGINE_LIBS)
tests_fuzz_fuzz_config_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer

# Not a test: make tests/bench/bench_fetch, then run it on a container.
EXTRA_PROGRAMS += tests/bench/bench_fetch
tests_bench_bench_fetch_SOURCES = %reldir%/bench/bench_fetch.c
tests_bench_bench_fetch_LDADD = $(ENGINE_LIBS)
