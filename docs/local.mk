# Documents.
dist_noinst_DATA += %reldir%/format.md
dist_man_MANS += %reldir%/man/lode.5
