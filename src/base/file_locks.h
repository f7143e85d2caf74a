// Facts about flock(). Thread-safe.
#pragma once

#include <cerrno>

namespace billow {

// Returns whether this errno of flock() means that the file system has no locks, as some network
// file systems do.
inline bool means_no_locks(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

}  // namespace billow
