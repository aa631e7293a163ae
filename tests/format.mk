# Tests of this area; included by tests/local.mk.
TINY = %reldir%/format/tiny.c %reldir%/format/tiny.h
PATCH = $(TINY) %reldir%/format/patch.c %reldir%/format/patch.h
RULES = $(PATCH) %reldir%/format/rules.h
FORMAT_TEST_LIBS = libformat.a libbase.a $(XXHASH_LIBS) $(ZSTD_LIBS) $(CRYPTO_LIBS) -lm

FORMAT_TESTS = tests/format/t_layout tests/format/t_digest \
	tests/format/t_encoding tests/format/t_index_only \
	tests/format/t_index tests/format/t_index_kinds \
	tests/format/t_reader tests/format/t_verify \
	tests/format/t_writer tests/format/t_strings \
	tests/format/t_sets tests/format/t_journal \
	tests/format/t_flips tests/format/t_filter tests/format/t_pack tests/format/t_unpack
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
tests_format_t_index_SOURCES = %reldir%/format/t_index.c $(RULES)
tests_format_t_index_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_index_kinds_SOURCES = %reldir%/format/t_index_kinds.c $(RULES)
tests_format_t_index_kinds_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_reader_SOURCES = %reldir%/format/t_reader.c $(PATCH)
tests_format_t_reader_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_verify_SOURCES = %reldir%/format/t_verify.c $(PATCH)
tests_format_t_verify_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_strings_SOURCES = %reldir%/format/t_strings.c
tests_format_t_strings_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_writer_SOURCES = %reldir%/format/t_writer.c $(TINY)
tests_format_t_writer_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_sets_SOURCES = %reldir%/format/t_sets.c $(TINY)
tests_format_t_sets_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_journal_SOURCES = %reldir%/format/t_journal.c $(TINY)
tests_format_t_journal_LDADD = $(FORMAT_TEST_LIBS)

tests_format_t_filter_SOURCES = %reldir%/format/t_filter.c
tests_format_t_filter_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_pack_SOURCES = %reldir%/format/t_pack.c
tests_format_t_pack_LDADD = $(FORMAT_TEST_LIBS)
tests_format_t_unpack_SOURCES = %reldir%/format/t_unpack.c
tests_format_t_unpack_LDADD = $(FORMAT_TEST_LIBS)

tests_format_t_flips_SOURCES = %reldir%/format/t_flips.c $(TINY)
tests_format_t_flips_LDADD = $(FORMAT_TEST_LIBS)

check_PROGRAMS += tests/format/mktiny
tests_format_mktiny_SOURCES = %reldir%/format/mktiny.c $(TINY)
tests_format_mktiny_LDADD = $(FORMAT_TEST_LIBS)
dist_check_SCRIPTS += %reldir%/format/t_root.sh %reldir%/lint/spec.sh
TESTS += %reldir%/format/t_root.sh %reldir%/lint/spec.sh
dist_noinst_DATA += %reldir%/format/check_root.py

# The n-th call fails.  Other tests may use wrap.c and FAULT_WRAP, too.
WRAP = %reldir%/fault/wrap.c %reldir%/fault/wrap.h
FAULT_WRAP = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc \
	-Wl,--wrap=mmap,--wrap=open,--wrap=pread,--wrap=pwrite \
	-Wl,--wrap=fsync,--wrap=fdatasync,--wrap=rename,--wrap=ftruncate \
	-Wl,--wrap=copy_file_range

FAULT_TESTS = tests/fault/t_writer_fault tests/fault/t_reader_fault \
	tests/fault/t_pack_fault tests/fault/t_journal_fault
check_PROGRAMS += $(FAULT_TESTS)
TESTS += $(FAULT_TESTS)
tests_fault_t_writer_fault_SOURCES = %reldir%/fault/t_writer_fault.c $(PATCH) $(WRAP)
tests_fault_t_writer_fault_LDADD = $(FORMAT_TEST_LIBS)
tests_fault_t_writer_fault_LDFLAGS = $(AM_LDFLAGS) $(FAULT_WRAP)
tests_fault_t_reader_fault_SOURCES = %reldir%/fault/t_reader_fault.c $(PATCH) $(WRAP)
tests_fault_t_reader_fault_LDADD = $(FORMAT_TEST_LIBS)
tests_fault_t_reader_fault_LDFLAGS = $(AM_LDFLAGS) $(FAULT_WRAP)
tests_fault_t_journal_fault_SOURCES = %reldir%/fault/t_journal_fault.c $(TINY) $(WRAP)
tests_fault_t_journal_fault_LDADD = $(FORMAT_TEST_LIBS)
tests_fault_t_journal_fault_LDFLAGS = $(AM_LDFLAGS) $(FAULT_WRAP)
tests_fault_t_pack_fault_SOURCES = %reldir%/fault/t_pack_fault.c $(WRAP)
tests_fault_t_pack_fault_LDADD = $(FORMAT_TEST_LIBS)
tests_fault_t_pack_fault_LDFLAGS = $(AM_LDFLAGS) $(FAULT_WRAP)

# Fuzz targets: replayed by make check; with libFuzzer when configured with
# --enable-fuzzer.  Seeds for it: replay_container -d FOLDER.
CONTAINER_FUZZ = %reldir%/fuzz/fuzz_container.c %reldir%/fuzz/fuzz.h \
	$(PATCH) $(WRAP)
check_PROGRAMS += tests/fuzz/replay_container
TESTS += tests/fuzz/replay_container
tests_fuzz_replay_container_SOURCES = %reldir%/fuzz/replay.c $(CONTAINER_FUZZ)
tests_fuzz_replay_container_LDADD = $(FORMAT_TEST_LIBS)
tests_fuzz_replay_container_LDFLAGS = $(AM_LDFLAGS) $(FAULT_WRAP)

if FUZZER
check_PROGRAMS += tests/fuzz/fuzz_container
else
EXTRA_PROGRAMS += tests/fuzz/fuzz_container
endif
tests_fuzz_fuzz_container_SOURCES = $(CONTAINER_FUZZ)
tests_fuzz_fuzz_container_LDADD = $(FORMAT_TEST_LIBS)
tests_fuzz_fuzz_container_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer \
	$(FAULT_WRAP)

PACK_FUZZ = %reldir%/fuzz/fuzz_pack.c %reldir%/fuzz/fuzz.h
check_PROGRAMS += tests/fuzz/replay_pack
TESTS += tests/fuzz/replay_pack
tests_fuzz_replay_pack_SOURCES = %reldir%/fuzz/replay.c $(PACK_FUZZ)
tests_fuzz_replay_pack_LDADD = $(FORMAT_TEST_LIBS)
if FUZZER
check_PROGRAMS += tests/fuzz/fuzz_pack
else
EXTRA_PROGRAMS += tests/fuzz/fuzz_pack
endif
tests_fuzz_fuzz_pack_SOURCES = $(PACK_FUZZ)
tests_fuzz_fuzz_pack_LDADD = $(FORMAT_TEST_LIBS)
tests_fuzz_fuzz_pack_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer

# Not a test: make tests/bench/bench_pack, then run it.
EXTRA_PROGRAMS += tests/bench/bench_pack
tests_bench_bench_pack_SOURCES = %reldir%/bench/bench_pack.c
tests_bench_bench_pack_LDADD = $(FORMAT_TEST_LIBS)
