#include "server/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

namespace billow::server {
namespace {

rlimit limit_now() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

TEST(OpenFiles, LimitIsRaisedToTheHardOne) {
  const rlimit before = limit_now();
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(before.rlim_max, 100);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  raise_open_file_limit();
  const rlimit raised = limit_now();
  raise_open_file_limit();
  const rlimit again = limit_now();
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(raised.rlim_cur, std::min<rlim_t>(before.rlim_max, kMaxOpenFiles));
  EXPECT_EQ(raised.rlim_max, before.rlim_max);
  EXPECT_EQ(again.rlim_cur, raised.rlim_cur);
}

}  // namespace
}  // namespace billow::server
