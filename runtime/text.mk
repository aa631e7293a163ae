# Text and tokens: the tokenizer, the chat formats, the sampler.
noinst_LIBRARIES += libtext.a
libtext_a_SOURCES = \
	%reldir%/tokenizer.h %reldir%/tokenizer.c \
	%reldir%/tok.h %reldir%/tok_load.c %reldir%/tok_table.c \
	%reldir%/tok_split.c %reldir%/tok_merge.c %reldir%/tok_utf8.c \
	%reldir%/template.h %reldir%/template.c \
	%reldir%/sampler.h %reldir%/sampler.c
