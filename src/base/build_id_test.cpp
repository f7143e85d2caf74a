#include "base/build_id.h"

#include <gtest/gtest.h>

namespace billow {
namespace {

TEST(BuildId, NamesThisProgram) {
  const std::string id = build_id();
  EXPECT_GE(id.size(), 16u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
  EXPECT_EQ(id, build_id());
}

}  // namespace
}  // namespace billow
