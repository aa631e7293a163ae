/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "runtime/cmd.h"

static const struct lode_command commands[] = {
    {"run", rt_cmd_run, "generate text from a container"},
    {"eval", rt_cmd_eval, "score a text: logits, experts, perplexity"},
    {"plan", rt_cmd_plan, "say what a memory budget would be spent on"},
    {NULL, NULL, NULL},
};

static void
usage(FILE *f)
{
    fputs("Usage: " RT_PROGRAM " COMMAND [OPTION]... FILE [TEXT]\n"
          "Run a container within a memory budget.\n\nCommands:\n",
          f);
    for (const struct lode_command *c = commands; c->name != NULL; c++)
        fprintf(f, "  %-6s %s\n", c->name, c->summary);
    fputs("\n\"" RT_PROGRAM " COMMAND --help\" lists a command's options.\n",
          f);
}

int
main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return lode_exit_status(LODE_E_USAGE);
    }
    if (strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return lode_cli_flushed(RT_PROGRAM, 0);
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts(RT_PROGRAM " " PACKAGE_VERSION);
        return lode_cli_flushed(RT_PROGRAM, 0);
    }
    for (const struct lode_command *c = commands; c->name != NULL; c++)
        if (strcmp(c->name, argv[1]) == 0)
            return lode_cli_flushed(RT_PROGRAM, c->run(argc - 1, argv + 1));
    fprintf(stderr, RT_PROGRAM ": no command \"%s\"; it has run, eval, plan\n",
            argv[1]);
    return lode_exit_status(LODE_E_USAGE);
}
