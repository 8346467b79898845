/* SPDX-License-Identifier: Apache-2.0 */
/* The children of this process, as the kernel lists them: also those that processes which ended have left to it. */
#include "exec/child.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One file of numbers for each thread; false if this kernel has none. */
static bool listed_children(void (*fn)(pid_t, void *), void *arg) {
    DIR *d = opendir("/proc/self/task");
    if (!d) return false;
    bool found = false;
    for (struct dirent *e; (e = readdir(d));) {
        if (!isdigit((unsigned char)e->d_name[0])) continue;
        char path[64];
        snprintf(path, sizeof path, "/proc/self/task/%.20s/children", e->d_name);
        FILE *f = fopen(path, "re");
        if (!f) continue;
        found = true;
        int pid;
        while (fscanf(f, "%d", &pid) == 1) fn(pid, arg);
        fclose(f);
    }
    closedir(d);
    return found;
}

/* The parent's number is the second after the name, which is in parentheses and may contain anything. */
static pid_t parent_of(const char *pid) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    size_t n = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    line[n] = 0;
    const char *p = strrchr(line, ')');
    int parent = -1;
    if (!p || sscanf(p + 1, " %*c %d", &parent) != 1) return -1;
    return parent;
}

static void searched_children(void (*fn)(pid_t, void *), void *arg) {
    DIR *d = opendir("/proc");
    if (!d) return;
    pid_t self = getpid();
    for (struct dirent *e; (e = readdir(d));)
        if (isdigit((unsigned char)e->d_name[0]) && parent_of(e->d_name) == self) fn(atoi(e->d_name), arg);
    closedir(d);
}

void exec_children(void (*fn)(pid_t pid, void *arg), void *arg) {
    if (!listed_children(fn, arg)) searched_children(fn, arg);
}
