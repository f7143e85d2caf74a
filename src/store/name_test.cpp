#include "store/name.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace billow::store {
namespace {

TEST(Name, FillsInMissingParts) {
  const auto name = parse_name("llama3.2");
  ASSERT_TRUE(name);
  EXPECT_EQ(full_name(*name), "registry.ollama.ai/library/llama3.2:latest");
  EXPECT_EQ(manifest_path(*name), "registry.ollama.ai/library/llama3.2/latest");
  EXPECT_EQ(display_name(*name), "llama3.2:latest");
  EXPECT_EQ(short_name(*name), "llama3.2");
  EXPECT_EQ(name->scheme, "https");
}

TEST(Name, AcceptsValidNames) {
  const struct {
    const char* text;
    const char* full;
    const char* display;
  } cases[] = {
      {"llama3.2:1b", "registry.ollama.ai/library/llama3.2:1b", "llama3.2:1b"},
      {"user/model:tag", "registry.ollama.ai/user/model:tag", "user/model:tag"},
      {"host:8080/ns/m:t", "host:8080/ns/m:t", "host:8080/ns/m:t"},
      {"host:8080/ns/m", "host:8080/ns/m:latest", "host:8080/ns/m:latest"},
      {"http://host/ns/m", "host/ns/m:latest", "host/ns/m:latest"},
      {"HTTPS://host:1/ns/m:t", "host:1/ns/m:t", "host:1/ns/m:t"},
      {"hf.co/user/repo:Q4_K_M", "hf.co/user/repo:Q4_K_M", "hf.co/user/repo:Q4_K_M"},
      {"hf.co/library/m", "hf.co/library/m:latest", "hf.co/library/m:latest"},
      {"_m:_t", "registry.ollama.ai/library/_m:_t", "_m:_t"},
      {"m..x:1.-_", "registry.ollama.ai/library/m..x:1.-_", "m..x:1.-_"},
  };
  for (const auto& test : cases) {
    const auto name = parse_name(test.text);
    ASSERT_TRUE(name) << test.text;
    EXPECT_EQ(full_name(*name), test.full);
    EXPECT_EQ(display_name(*name), test.display);
    EXPECT_EQ(parse_name(display_name(*name)).value_or(Name{}).model, name->model);
  }
  EXPECT_EQ(parse_name("http://host/ns/m")->scheme, "http");
  EXPECT_EQ(parse_name("HTTPS://host/ns/m")->scheme, "https");
}

TEST(Name, RefusesInvalidNames) {
  const std::string cases[] = {"",
                               ":",
                               "/",
                               "a/b/c/d",
                               "model:",
                               ":tag",
                               "-m",
                               ".m",
                               "m:.t",
                               "m:-t",
                               "n.s/m",
                               "m:ta g",
                               "m :t",
                               " m",
                               "m\n",
                               "../m",
                               "..",
                               "a/..",
                               "a/../m",
                               "../../m:t",
                               "host/../m",
                               "m:..",
                               "/m",
                               "ns/",
                               "ns//m",
                               "host//m",
                               "//m",
                               "host/ns/m:",
                               "m\\x",
                               "m@sha256:00",
                               "m\xc3\xa4",
                               "http://m",
                               "http://ns/m",
                               "ftp://host/ns/m",
                               "http://",
                               "a:b:c",
                               "-h/ns/m",
                               ":80/ns/m",
                               std::string("m\0x", 3),
                               std::string(81, 'a'),
                               "m:" + std::string(81, 'a'),
                               std::string(81, 'a') + "/m",
                               std::string(351, 'a') + "/n/m"};
  for (const std::string& text : cases) EXPECT_FALSE(parse_name(text)) << text;
  EXPECT_TRUE(parse_name("m:" + std::string(80, 'a')));
  EXPECT_TRUE(parse_name(std::string(80, 'a') + "/" + std::string(80, 'b')));
  EXPECT_TRUE(parse_name(std::string(350, 'a') + "/n/m"));
}

TEST(Name, ComparisonIgnoresCase) {
  EXPECT_TRUE(same_model(*parse_name("LLAMA3.2:1B"), *parse_name("llama3.2:1b")));
  EXPECT_TRUE(same_model(*parse_name("http://H/n/m"), *parse_name("h/N/M")));
  EXPECT_FALSE(same_model(*parse_name("m:1"), *parse_name("m:2")));
  EXPECT_FALSE(same_model(*parse_name("a/m"), *parse_name("m")));
  EXPECT_EQ(display_name(*parse_name("Registry.Ollama.AI/Library/M:t")), "M:t");
}

TEST(Name, SuffixesSelectTheSource) {
  EXPECT_EQ(split_source("m:tag").source, Source::kAny);
  EXPECT_EQ(split_source("m:Local").source, Source::kLocal);
  EXPECT_EQ(split_source("m:Local").name, "m");
  EXPECT_EQ(split_source("m:tag:cloud").source, Source::kCloud);
  EXPECT_EQ(split_source("m:tag:cloud").name, "m:tag");
  EXPECT_EQ(split_source("m:20b-CLOUD").source, Source::kCloud);
  EXPECT_EQ(split_source("m:20b-CLOUD").name, "m:20b-CLOUD");
  EXPECT_EQ(split_source("my-cloud").source, Source::kAny);
  EXPECT_EQ(split_source("h:80/n/my-cloud").source, Source::kAny);
  for (const char* both : {"m:local:cloud", "m:cloud:local", "m:20b-cloud:local"}) {
    try {
      split_source(both);
      ADD_FAILURE() << both;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                std::string("use either :local or :cloud, not both: \"") + both + "\"");
    }
  }
}

}  // namespace
}  // namespace billow::store
