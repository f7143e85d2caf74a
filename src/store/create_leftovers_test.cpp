// Tests that a failed creation removes its large files.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_folder.h"
#include "store/create.h"
#include "store/folder.h"
#include "store/sample_gguf.h"

namespace billow::store {
namespace {

class CreateLeftovers : public testing::Test {
 protected:
  CreateLeftovers() {
    hooks.has_quantization = [](std::string_view) { return true; };
    hooks.quantize = [](const Quantization&, const ByteSink& sink) {
      gguf::Writer small = sample_gguf();
      small.set_uint("general.file_type", 2);
      sink(small.to_bytes());
    };
    request.model = "m";
    request.draft = "absent";  // fails after the weights are made
  }
  // Expects that the creation fails and that no blob stays.
  void fails() {
    EXPECT_THROW(create_model(store, request, hooks), Error);
    EXPECT_EQ(children(folder.path() + "/blobs"), std::vector<std::string>());
  }

  TestFolder folder;
  Store store{folder.path()};
  CreateHooks hooks;
  CreateRequest request;
};

TEST_F(CreateLeftovers, OfAJoinedSplit) {
  const std::vector<std::byte> values(4);
  const auto part = [&](int32_t number) {
    gguf::Writer writer = number == 0 ? sample_gguf() : gguf::Writer();
    writer.set_int("split.no", number);
    writer.set_int("split.count", 2);
    writer.set_int("split.tensors.count", 2);
    if (number == 1) writer.add_tensor("output.weight", 0, std::vector<uint64_t>{1}, values);
    return add_gguf(store, writer).text();
  };
  request.files = {{{"m-00001-of-00002.gguf", part(0)}, {"m-00002-of-00002.gguf", part(1)}}};
  fails();
}

TEST_F(CreateLeftovers, OfAQuantizedModel) {
  gguf::Writer large = sample_gguf();
  large.set_uint("general.file_type", 1);  // F16
  request.files = {{{"model.gguf", add_gguf(store, large).text()}}};
  request.quantize = "q4_0";
  fails();
}

}  // namespace
}  // namespace billow::store
