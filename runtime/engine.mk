# The engine, and the program lode-run.
noinst_LIBRARIES += libengine.a
libengine_a_SOURCES = \
	%reldir%/engine.h %reldir%/engine_impl.h %reldir%/engine.c \
	%reldir%/model_config.h %reldir%/model_config.c \
	%reldir%/model.h %reldir%/model.c \
	%reldir%/layer_order.h %reldir%/layer_order.c \
	%reldir%/budget.h %reldir%/budget.c \
	%reldir%/fetch.h %reldir%/fetch.c \
	%reldir%/cache.h %reldir%/cache.c \
	%reldir%/trunk.h %reldir%/trunk.c \
	%reldir%/state.h %reldir%/state.c \
	%reldir%/work.h %reldir%/work.c \
	%reldir%/embed.h %reldir%/embed.c \
	%reldir%/ops.h %reldir%/ops.c \
	%reldir%/route.h %reldir%/route.c %reldir%/moe.c \
	%reldir%/family.h %reldir%/family_kimi.c \
	%reldir%/kimi_kda.c %reldir%/kimi_mla.c

bin_PROGRAMS += lode-run
lode_run_SOURCES = %reldir%/main.c %reldir%/cmd.h %reldir%/cmd.c \
	%reldir%/cmd_run.c %reldir%/cmd_eval.c %reldir%/cmd_plan.c
lode_run_LDADD = libengine.a libtext.a libkernels.a libformat.a libbase.a \
	$(XXHASH_LIBS) $(ZSTD_LIBS) $(JANSSON_LIBS) $(PCRE2_LIBS) -lm
