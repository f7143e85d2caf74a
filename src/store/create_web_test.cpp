// Tests what the store keeps of a web address that a model is created from.
#include <gtest/gtest.h>

#include <string>

#include "base/test_folder.h"
#include "store/create.h"
#include "store/create_config.h"
#include "store/sample_gguf.h"

namespace billow::store {
namespace {

TEST(CreateWeb, TheStoredAddressHasNoSecrets) {
  const TestFolder folder;
  Store store(folder.path());
  const std::string url = "https://me:password@h/x.gguf?token=secret#part";
  std::string fetched;
  CreateHooks hooks;
  hooks.web_files = [](const std::string& from) {
    return std::vector<WebFile>{{.name = "x.gguf", .url = from}};
  };
  hooks.fetch = [&](const WebFile& file, const ByteSink& sink) {
    fetched = file.url;
    sink(sample_gguf().to_bytes());
  };
  CreateRequest request;
  request.model = "m";
  request.from = url;
  const auto model = load_model(store, create_model(store, request, hooks));
  ASSERT_TRUE(model);
  EXPECT_EQ(fetched, url);
  EXPECT_EQ(model->details.parent_model, "https://h/x.gguf");
  const std::string manifest = store.manifest_text(model->stored.name).value();
  EXPECT_EQ(manifest.find("secret"), std::string::npos);
  EXPECT_EQ(manifest.find("password"), std::string::npos);
}

TEST(CreateWeb, OnlySecretsAreRemovedFromAnAddress) {
  EXPECT_EQ(public_address("https://h:8080/a@b/x.gguf"), "https://h:8080/a@b/x.gguf");
  EXPECT_EQ(public_address("https://h/x.gguf#?a"), "https://h/x.gguf");
  EXPECT_EQ(public_address("https://a@b@h"), "https://h");
  EXPECT_EQ(public_address("x.gguf?a"), "x.gguf");
}

}  // namespace
}  // namespace billow::store
