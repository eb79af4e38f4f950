// The files that the program sees: those that were dropped, in memory, by names of their own. It is the part of
// Node's module fs that the Go distribution's wasm_exec.js asks for. Nothing can be written but the standard output.

const error = (code) => Object.assign(new Error(code), { code });

const type = { directory: 0o040000, file: 0o100000 };

const stat = (size, mode) => ({
  dev: 0, ino: 0, mode, nlink: 1, uid: 0, gid: 0, rdev: 0, size, blksize: 4096, blocks: Math.ceil(size / 512), atimeMs: 0, mtimeMs: 0, ctimeMs: 0,
  isDirectory: () => mode === type.directory,
});

// fileSystem holds files, a Map of their bytes by name. printed is called with each piece of the standard output.
export function fileSystem(files, printed) {
  const open = new Map();
  let next = 3;
  const unavailable = (...args) => args.at(-1)(error('ENOSYS'));
  const write = (fd, bytes) => {
    if (fd !== 1 && fd !== 2) throw error('EBADF');
    printed(bytes.slice());
    return bytes.length;
  };
  const status = (path, done) => {
    const bytes = files.get(path);
    if (bytes) done(null, stat(bytes.length, type.file));
    else done(error('ENOENT'));
  };
  return {
    constants: { O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 0o100, O_EXCL: 0o200, O_TRUNC: 0o1000, O_APPEND: 0o2000, O_DIRECTORY: 0o200000 },
    writeSync: write,
    write(fd, bytes, offset, length, position, done) {
      done(null, write(fd, bytes.subarray(offset, offset + length)));
    },
    open(path, flags, mode, done) {
      const bytes = files.get(path);
      if (!bytes) return done(error('ENOENT'));
      if (flags !== 0) return done(error('EACCES'));
      open.set(next, { bytes, at: 0 });
      return done(null, next++);
    },
    read(fd, into, offset, length, position, done) {
      const file = open.get(fd);
      if (!file) return done(error('EBADF'));
      const from = position ?? file.at;
      const part = file.bytes.subarray(from, from + length);
      into.set(part, offset);
      if (position === null) file.at += part.length;
      return done(null, part.length);
    },
    fstat(fd, done) {
      const file = open.get(fd);
      if (file) done(null, stat(file.bytes.length, type.file));
      else done(error('EBADF'));
    },
    stat: status,
    lstat: status,
    close(fd, done) {
      done(open.delete(fd) ? null : error('EBADF'));
    },
    fsync(fd, done) { done(null); },
    chmod: unavailable, chown: unavailable, fchmod: unavailable, fchown: unavailable, ftruncate: unavailable, lchown: unavailable, link: unavailable, mkdir: unavailable,
    readdir: unavailable, readlink: unavailable, rename: unavailable, rmdir: unavailable, symlink: unavailable, truncate: unavailable, unlink: unavailable, utimes: unavailable,
  };
}
