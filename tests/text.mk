# The tokenizer, the chat formats, the sampler, and synthetic checkpoints.
check_PROGRAMS += tests/gen/mkckpt
tests_gen_mkckpt_SOURCES = %reldir%/gen/mkckpt.c %reldir%/gen/ckpt.h \
	%reldir%/gen/ckpt_tensors.c %reldir%/gen/ckpt_values.c \
	%reldir%/gen/ckpt_shards.c %reldir%/gen/ckpt_config.c \
	%reldir%/gen/ckpt_vocab.c
tests_gen_mkckpt_LDADD = libbase.a $(JANSSON_LIBS)
