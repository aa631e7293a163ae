# Documents.
dist_noinst_DATA += %reldir%/format.md %reldir%/architecture.md \
	%reldir%/decisions.md %reldir%/testing.md %reldir%/roles.md
dist_man_MANS += %reldir%/man/lode.1 %reldir%/man/lode-run.1 %reldir%/man/lode.5
