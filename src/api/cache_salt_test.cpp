#include "api/cache_salt.h"

#include <gtest/gtest.h>

#include <set>

#include "base/json.h"
#include "http/status.h"

namespace billow::api {
namespace {

TEST(CacheSalt, DependsOnTheKeyAndOnTheField) {
  EXPECT_EQ(prefix_salt("", ""), 0U);
  std::set<uint64_t> salts;
  for (const auto& [key, salt] : {std::pair("ann", ""), std::pair("", "ann"), std::pair("ann", "x"),
                                  std::pair("an", "nx"), std::pair("bob", "x")})
    EXPECT_TRUE(salts.insert(prefix_salt(key, salt)).second) << key << " " << salt;
  for (const uint64_t salt : salts) {
    EXPECT_NE(salt, 0U);
    EXPECT_EQ(salt >> 63, 0U);
  }
  // The value is documented: digests of prefixes are the same on all hosts.
  EXPECT_EQ(prefix_salt("ann", ""), prefix_salt("ann", ""));
}

TEST(CacheSalt, IsATextOfLimitedLength) {
  const auto salt_of = [](const Json& body) {
    return cache_salt_of(Fields::parse(body.dump(), "Request"));
  };
  EXPECT_EQ(salt_of({{"cache_salt", "a"}}), "a");
  EXPECT_EQ(salt_of({{"cache_salt", nullptr}}), "");
  EXPECT_EQ(salt_of(Json::object()), "");
  EXPECT_THROW(salt_of({{"cache_salt", 7}}), http::StatusError);
  EXPECT_THROW(salt_of({{"cache_salt", std::string(1025, 'a')}}), http::StatusError);
}

TEST(CacheSalt, SeparatesSlots) {
  EXPECT_EQ(slot_key("m", 0), "m");
  EXPECT_NE(slot_key("m", 1), slot_key("m", 2));
}

}  // namespace
}  // namespace billow::api
