#include "vision/resize.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/json.h"
#include "vision/test_support.h"

namespace billow::vision {
namespace {

using image::Picture;
using image::Size;

Filter filter_of(const std::string& name) {
  return name == "bilinear"  ? Filter::kBilinear
         : name == "bicubic" ? Filter::kBicubic
                             : Filter::kLanczos;
}

ErrorCode code_of(Size from, Size to) {
  try {
    check_resize(from, to);
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::kIo;
}

TEST(Resize, PixelsAreThoseOfPillowAndTorchvision) {
  const Json golden = Json::parse(test::bytes_of(test::golden_folder() + "resize.json"));
  for (const Json& expected : golden) {
    const auto source = expected.at("source").get<std::vector<uint32_t>>();
    const auto size = expected.at("size").get<std::vector<uint32_t>>();
    const auto filter = expected.at("filter").get<std::string>();
    const auto arithmetic = expected.at("arithmetic").get<std::string>();
    SCOPED_TRACE(arithmetic + " " + filter + " " + expected.at("source").dump() + " to " +
                 expected.at("size").dump());
    const Picture picture =
        resize(test::drawn(source[0], source[1], 255), {size[0], size[1]}, filter_of(filter),
               arithmetic == "pillow" ? Arithmetic::kPillow : Arithmetic::kTorch);
    ASSERT_EQ(picture.rgb.size(), size_t{3} * size[0] * size[1]);
    EXPECT_LE(test::largest_difference(picture.rgb, expected.at("samples").get<std::string>()), 1);
    EXPECT_EQ(test::crc32(std::as_bytes(std::span(picture.rgb))),
              expected.at("hash").get<uint32_t>());
  }
  EXPECT_EQ(golden.size(), 72u);
}

TEST(Resize, OnePixelFillsThePicture) {
  const Picture dot{.size = {1, 1}, .rgb = {10, 200, 255}};
  for (const Filter filter : {Filter::kBilinear, Filter::kBicubic, Filter::kLanczos}) {
    const Picture large = resize(dot, {3, 2}, filter, Arithmetic::kTorch);
    for (size_t i = 0; i < large.rgb.size(); ++i) EXPECT_EQ(large.rgb[i], dot.rgb[i % 3]);
  }
}

TEST(Resize, ChecksSizesBeforeAllocations) {
  EXPECT_EQ(code_of({0, 5}, {5, 5}), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of({5, 5}, {5, 0}), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of({kMaxSide + 1, 5}, {5, 5}), ErrorCode::kTooLarge);
  EXPECT_EQ(code_of({5, 5}, {kMaxSide, kMaxSide}), ErrorCode::kTooLarge);
  EXPECT_EQ(code_of({1, kMaxSide}, {8000, 8}), ErrorCode::kTooLarge);  // the rows in between
  EXPECT_NO_THROW(check_resize({kMaxSide, 1}, {1, kMaxSide}));
}

}  // namespace
}  // namespace billow::vision
