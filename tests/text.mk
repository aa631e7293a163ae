# The tokenizer, the chat formats, the sampler, and synthetic checkpoints.
TEXT_TESTS = tests/runtime/t_tokenizer tests/runtime/t_template \
	tests/runtime/t_sampler
TEXT_LIBS = libtext.a libkernels.a libbase.a $(JANSSON_LIBS) $(PCRE2_LIBS) -lm
check_PROGRAMS += $(TEXT_TESTS)
TESTS += $(TEXT_TESTS)
tests_runtime_t_tokenizer_SOURCES = %reldir%/runtime/t_tokenizer.c \
	%reldir%/runtime/tok_files.h
tests_runtime_t_tokenizer_LDADD = $(TEXT_LIBS)
tests_runtime_t_template_SOURCES = %reldir%/runtime/t_template.c \
	%reldir%/runtime/tok_files.h
tests_runtime_t_template_LDADD = $(TEXT_LIBS)
tests_runtime_t_sampler_SOURCES = %reldir%/runtime/t_sampler.c
tests_runtime_t_sampler_LDADD = $(TEXT_LIBS)

check_PROGRAMS += tests/gen/mkckpt
tests_gen_mkckpt_SOURCES = %reldir%/gen/mkckpt.c %reldir%/gen/ckpt.h \
	%reldir%/gen/ckpt_tensors.c %reldir%/gen/ckpt_values.c \
	%reldir%/gen/ckpt_shards.c %reldir%/gen/ckpt_config.c \
	%reldir%/gen/ckpt_vocab.c
tests_gen_mkckpt_LDADD = libbase.a $(JANSSON_LIBS)

TOKENIZER_FUZZ = %reldir%/fuzz/fuzz_tokenizer.c %reldir%/fuzz/fuzz.h \
	%reldir%/runtime/tok_files.h
check_PROGRAMS += tests/fuzz/replay_tokenizer
TESTS += tests/fuzz/replay_tokenizer
tests_fuzz_replay_tokenizer_SOURCES = %reldir%/fuzz/replay.c $(TOKENIZER_FUZZ)
tests_fuzz_replay_tokenizer_LDADD = $(TEXT_LIBS)
if FUZZER
check_PROGRAMS += tests/fuzz/fuzz_tokenizer
else
EXTRA_PROGRAMS += tests/fuzz/fuzz_tokenizer
endif
tests_fuzz_fuzz_tokenizer_SOURCES = $(TOKENIZER_FUZZ)
tests_fuzz_fuzz_tokenizer_LDADD = $(TEXT_LIBS)
tests_fuzz_fuzz_tokenizer_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer

dist_check_SCRIPTS += %reldir%/gen/t_mkckpt.sh
TESTS += %reldir%/gen/t_mkckpt.sh
dist_noinst_DATA += %reldir%/gen/check_ckpt.py

# wrap.c and FAULT_WRAP: tests/format.mk.
check_PROGRAMS += tests/runtime/t_text_fault
TESTS += tests/runtime/t_text_fault
tests_runtime_t_text_fault_SOURCES = %reldir%/runtime/t_text_fault.c \
	%reldir%/runtime/tok_files.h $(WRAP)
tests_runtime_t_text_fault_LDADD = $(TEXT_LIBS)
tests_runtime_t_text_fault_LDFLAGS = $(AM_LDFLAGS) $(FAULT_WRAP)
