/*
 * Preloaded into a process: writes down, in one order, what it does to the files below RECORD_ROOT.
 *
 * Each record in the file RECORD_LOG is: kind (1 byte), inode (8), offset (8), length of path (4), length of data (4),
 * the path, the data; numbers little endian. Kinds:
 *   M directory made     C file made           W written at offset   T cut to offset   S synced
 *   U name removed       R renamed to data     L linked as data      A said (a write to a file named "said")
 *
 * Nothing is really synced: who reads the log makes the disk.
 *
 * With RECORD_FAIL="first count error", the writes, cuts and syncs numbered first, .., first + count - 1 fail with that
 * error number.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES = 4096 };
enum { OTHERS = 0, RECORDED = 1, SPOKEN = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static size_t root_length;
static int record_log = -1;
static unsigned char kind_of[FILES];
static long acts, fail_first, fail_count, fail_error;

static void fail(const char *why) {
    syscall(SYS_write, 2, why, strlen(why));
    abort();
}

static void record(char kind, uint64_t inode, uint64_t offset, const char *path, const void *data, size_t length) {
    uint32_t path_length = (uint32_t)strlen(path), data_length = (uint32_t)length;
    size_t total = 25 + path_length + length, done = 0;
    char *buffer = malloc(total), *at = buffer;
    if (!buffer) fail("recorder: no memory\n");
    *at++ = kind;
    memcpy(at, &inode, 8), at += 8;
    memcpy(at, &offset, 8), at += 8;
    memcpy(at, &path_length, 4), at += 4;
    memcpy(at, &data_length, 4), at += 4;
    memcpy(at, path, path_length), at += path_length;
    if (length) memcpy(at, data, length);
    while (done < total) {
        long written = syscall(SYS_write, record_log, buffer + done, total - done);
        if (written <= 0) fail("recorder: the log cannot be written\n");
        done += (size_t)written;
    }
    free(buffer);
}

static int ours(const char *path) {
    return record_log >= 0 && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static int kind(int file) {
    return file >= 0 && file < FILES ? kind_of[file] : OTHERS;
}

static uint64_t inode_of(int file) {
    struct stat found;
    if (fstat(file, &found)) fail("recorder: a file without an inode\n");
    return found.st_ino;
}

static uint64_t inode_at(const char *path) {
    struct stat found;
    if (stat(path, &found)) fail("recorder: a path without an inode\n");
    return found.st_ino;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("RECORD_LOG");
    root = getenv("RECORD_ROOT");
    if (!path || !root) return;
    root_length = strlen(root);
    record_log = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (record_log < 0) fail("recorder: the log cannot be opened\n");
    record('M', inode_at(root), 0, root, 0, 0);
    const char *faults = getenv("RECORD_FAIL");
    if (faults && sscanf(faults, "%ld %ld %ld", &fail_first, &fail_count, &fail_error) != 3)
        fail("recorder: RECORD_FAIL is not three numbers\n");
}

/* Whether the next act is one that fails. Called with the lock held. */
static int fails(void) {
    acts += 1;
    return acts >= fail_first && acts < fail_first + fail_count;
}

static int open_one(const char *path, int flags, mode_t mode) {
    if (!ours(path)) return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    pthread_mutex_lock(&lock);
    int there = !syscall(SYS_faccessat, AT_FDCWD, path, F_OK);
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    int error = errno;
    if (file >= FILES) fail("recorder: too many files\n");
    if (file >= 0) {
        const char *name = strrchr(path, '/');
        kind_of[file] = name && !strcmp(name, "/said") ? SPOKEN : RECORDED;
        if (kind_of[file] == RECORDED && !there) record('C', inode_of(file), 0, path, 0, 0);
        if (kind_of[file] == RECORDED && there && (flags & O_TRUNC)) record('T', inode_of(file), 0, "", 0, 0);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return file;
}

#define MODE_ARGUMENT(flags, last)                \
    mode_t mode = 0;                              \
    if ((flags) & (O_CREAT | O_TMPFILE)) {        \
        va_list arguments;                        \
        va_start(arguments, last);                \
        mode = va_arg(arguments, mode_t);         \
        va_end(arguments);                        \
    }

int open(const char *path, int flags, ...) {
    MODE_ARGUMENT(flags, flags)
    return open_one(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_ARGUMENT(flags, flags)
    return open_one(path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...) {
    MODE_ARGUMENT(flags, flags)
    if (ours(path)) return open_one(path, flags, mode);
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...) {
    MODE_ARGUMENT(flags, flags)
    if (ours(path)) return open_one(path, flags, mode);
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}

int close(int file) {
    if (kind(file) == OTHERS) return (int)syscall(SYS_close, file);
    pthread_mutex_lock(&lock);
    kind_of[file] = OTHERS;
    int result = (int)syscall(SYS_close, file);
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

ssize_t write(int file, const void *data, size_t length) {
    if (kind(file) == OTHERS) return syscall(SYS_write, file, data, length);
    pthread_mutex_lock(&lock);
    int faulty = kind(file) == RECORDED && fails();
    ssize_t written = faulty ? -1 : syscall(SYS_write, file, data, length);
    int error = faulty ? (int)fail_error : errno;
    if (written > 0 && kind(file) == SPOKEN) record('A', 0, 0, "", data, (size_t)written);
    if (written > 0 && kind(file) == RECORDED) {
        uint64_t end = (uint64_t)syscall(SYS_lseek, file, 0, SEEK_CUR);
        record('W', inode_of(file), end - (uint64_t)written, "", data, (size_t)written);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return written;
}

ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset) {
    if (kind(file) != RECORDED) return syscall(SYS_pwrite64, file, data, length, offset);
    pthread_mutex_lock(&lock);
    int faulty = fails();
    ssize_t written = faulty ? -1 : syscall(SYS_pwrite64, file, data, length, offset);
    int error = faulty ? (int)fail_error : errno;
    if (written > 0) record('W', inode_of(file), (uint64_t)offset, "", data, (size_t)written);
    pthread_mutex_unlock(&lock);
    errno = error;
    return written;
}

ssize_t pwrite(int file, const void *data, size_t length, off_t offset) {
    return pwrite64(file, data, length, offset);
}

int ftruncate64(int file, off64_t length) {
    if (kind(file) != RECORDED) return (int)syscall(SYS_ftruncate, file, length);
    pthread_mutex_lock(&lock);
    int faulty = fails();
    int result = faulty ? -1 : (int)syscall(SYS_ftruncate, file, length);
    int error = faulty ? (int)fail_error : errno;
    if (!result) record('T', inode_of(file), (uint64_t)length, "", 0, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int ftruncate(int file, off_t length) {
    return ftruncate64(file, length);
}

int fsync(int file) {
    if (kind(file) != RECORDED) return (int)syscall(SYS_fsync, file);
    pthread_mutex_lock(&lock);
    int faulty = fails();
    if (!faulty) record('S', inode_of(file), 0, "", 0, 0);
    pthread_mutex_unlock(&lock);
    if (faulty) errno = (int)fail_error;
    return faulty ? -1 : 0;
}

int fdatasync(int file) {
    return fsync(file);
}

/* Carries out what changes names, and records it if it went well. */
#define NAMES(call, condition, ...)              \
    if (!(condition)) return (int)(call);        \
    pthread_mutex_lock(&lock);                   \
    int result = (int)(call);                    \
    int error = errno;                           \
    if (!result) record(__VA_ARGS__);            \
    pthread_mutex_unlock(&lock);                 \
    errno = error;                               \
    return result;

int unlink(const char *path) {
    NAMES(syscall(SYS_unlinkat, AT_FDCWD, path, 0), ours(path), 'U', 0, 0, path, 0, 0)
}

int rename(const char *from, const char *to) {
    NAMES(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0), ours(from), 'R', 0, 0, from, to, strlen(to))
}

int linkat(int old_directory, const char *from, int new_directory, const char *to, int flags) {
    NAMES(syscall(SYS_linkat, old_directory, from, new_directory, to, flags), ours(from), 'L', 0, 0, from, to,
          strlen(to))
}

int link(const char *from, const char *to) {
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdir(const char *path, mode_t mode) {
    NAMES(syscall(SYS_mkdirat, AT_FDCWD, path, mode), ours(path), 'M', inode_at(path), 0, path, 0, 0)
}

/* Copies inside the kernel are refused: who tried them goes on with reads and writes. */
ssize_t copy_file_range(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t length, unsigned flags) {
    if (kind(to) == OTHERS)
        return syscall(SYS_copy_file_range, from, from_offset, to, to_offset, length, flags);
    errno = ENOSYS;
    return -1;
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t length) {
    if (kind(to) == OTHERS) return syscall(SYS_sendfile, to, from, offset, length);
    errno = ENOSYS;
    return -1;
}

ssize_t sendfile(int to, int from, off_t *offset, size_t length) {
    return sendfile64(to, from, offset, length);
}
