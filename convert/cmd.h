/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of lode: argv[0] is the command's name, the result is an exit
 * status.  They and main.c are the only files here that print. */

#ifndef LODE_CONVERT_CMD_H
#define LODE_CONVERT_CMD_H

int cmd_convert(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_extract(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_repair(int argc, char **argv);
int cmd_statement(int argc, char **argv);
int cmd_repack(int argc, char **argv);

#endif
