#include "server/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/log.h"

namespace billow::server {

void raise_open_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, kMaxOpenFiles);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  log::warn("cannot raise the limit of open files: " + std::generic_category().message(errno));
}

}  // namespace billow::server
