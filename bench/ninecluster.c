/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nine clusters of the paper (nine_net.h) with its 948 processes, and one master in hongo.
 *
 *   ninecluster [--quick | WORKERS]
 *
 * It needs root, and takes minutes: all nodes share the processors of one machine, and what each does to look for a
 * node that is far (some frames for each of its links) is done by all of them at once there. Its workers and its master
 * are in nine_nodes.c.
 */
#include "bench/nine.h"

#include "bench/bench.h"
#include "bench/nine_net.h"

#define QUICK 60

static int run(int all) {
    int hosts = all < NINE_ALL ? 2 : 4, n[NINE_CLUSTERS], sum = 0;
    for (int i = 0; i < NINE_CLUSTERS; i++) {
        n[i] = nine_clusters[i].workers * all / NINE_ALL;
        if (n[i] < 3) n[i] = 3;
        sum += n[i];
    }
    nine_begin(hosts);
    char number[16], line[300];
    snprintf(number, sizeof number, "%d", sum);
    FILE *f = nine_start_master((const char *[]){"master", number, NULL});
    printf("%d workers on %d hosts of %d clusters\n", sum, hosts * NINE_CLUSTERS, NINE_CLUSTERS);
    fflush(stdout);
    /* Those of blocked clusters wait until those at the other ends of their lines are there, and others there for the
     * gateways: they have turns of their own. */
    for (int blocked = 0; blocked < 2; blocked++) {
        nine_new_turns();
        for (int i = 0; i < NINE_CLUSTERS && blocked; i++)
            if (nine_is_blocked(i)) nine_start_gateway(i);
        if (blocked) nine_new_turns();
        for (int i = 0; i < NINE_CLUSTERS; i++)
            if (nine_is_blocked(i) == blocked) nine_start_hosts(i, n[i]);
    }
    while (fgets(line, sizeof line, f)) {
        fputs(line, stdout);
        fflush(stdout);
    }
    fclose(f);
    return nine_master_status();
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "worker") == 0) return nine_worker(atoi(argv[2]));
    if (argc == 2 && strcmp(argv[1], "host") == 0) return nine_host();
    if (argc == 3 && strcmp(argv[1], "master") == 0) return nine_master(atoi(argv[2]));
    int all = argc < 2 ? NINE_ALL : strcmp(argv[1], "--quick") == 0 ? QUICK : atoi(argv[1]);
    if (all < 1 || all > NINE_ALL) {
        fprintf(stderr, "usage: ninecluster [--quick | WORKERS], at most %d\n", NINE_ALL);
        return 2;
    }
    const char *why = nine_missing();
    if (why) {
        printf("skipped: %s\n", why);
        return 77;
    }
    int status = run(all);
    nine_end();
    return status;
}
