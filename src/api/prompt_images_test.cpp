#include "api/prompt_images.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "http/status.h"
#include "image/picture.h"

namespace billow::api {
namespace {

std::string png(uint32_t width = 4, uint32_t height = 3) {
  return image::encode_png({{width, height}, std::vector<uint8_t>(size_t{width} * height * 3)});
}

constexpr context::PictureRule kRule{
    .kind = context::PictureRule::Kind::kSquare, .cell = 14, .edge = 56};
const ModelPictures kPictures(kRule);

std::string shown(std::vector<Part> parts) {
  PromptImages images(&kPictures);
  Message message{.role = "user", .parts = std::move(parts)};
  images.add(message);
  return images.placed(message.text()).shown;
}

std::string why(const std::string& bytes) {
  PromptImages images(&kPictures);
  Message message{.role = "user", .parts = {ImagePart{png()}, ImagePart{bytes}}};
  try {
    images.add(message);
  } catch (const http::StatusError& error) {
    EXPECT_EQ(error.status(), 400);
    return error.what();
  }
  return "";
}

TEST(PromptImages, StayBetweenTheTexts) {
  EXPECT_EQ(shown({TextPart{"a"}, ImagePart{png()}, TextPart{"b"}}), "a[img-0]b");
  EXPECT_EQ(shown({ImagePart{png()}, ImagePart{png()}, TextPart{"b"}}), "[img-0][img-1]b");
  EXPECT_EQ(shown({TextPart{"a"}, TextPart{"b"}, ImagePart{png()}}), "a\n\nb[img-0]");
  EXPECT_EQ(shown({ImagePart{png()}}), "[img-0]");
}

TEST(PromptImages, ReplaceMarkersOfOllamasClients) {
  EXPECT_EQ(shown({ImagePart{png()}, TextPart{"see [img] there"}}), "see [img-0] there");
  EXPECT_EQ(shown({ImagePart{png()}, ImagePart{png()}, TextPart{"see [img]"}}),
            "[img-1]see [img-0]");
  EXPECT_EQ(shown({TextPart{"no [img]"}}), "no [img]") << "there is no image";
}

TEST(PromptImages, ReplaceMarkersInRawPrompts) {
  const auto raw = [](std::string_view text, std::string_view marker) {
    PromptImages images(&kPictures);
    return images.placed(images.add_raw({png(), png()}, text, marker)).shown;
  };
  EXPECT_EQ(raw("a<M>b<M>c<M>", "<M>"), "a[img-0]b[img-1]c<M>");
  EXPECT_EQ(raw("a", "<M>"), "[img-0][img-1]a");
  EXPECT_EQ(raw("[img-1] and [img-0]", "[img]"), "[img-1] and [img-0]");
  PromptImages images(&kPictures);
  const auto placed = images.placed(images.add_raw({png(), png()}, "x [img-1] y [img-0]", "[img]"));
  ASSERT_EQ(placed.places.size(), 2u);
  EXPECT_EQ(placed.places[0].image, 1u);
  EXPECT_EQ(placed.text, "x  y ");
}

TEST(PromptImages, HavePlacesInTheText) {
  PromptImages images(&kPictures);
  Message first{.role = "user", .parts = {ImagePart{png()}, TextPart{"a"}}};
  Message second{.role = "tool", .parts = {TextPart{"b"}, ImagePart{png()}}};
  images.add(first);
  images.add(second);
  EXPECT_EQ(images.size(), 2u);
  EXPECT_EQ(images.of_message(1), std::vector<size_t>{1});
  EXPECT_EQ(first.n_images(), 1u) << "templates see the image";
  EXPECT_TRUE(std::get<ImagePart>(first.parts[0]).bytes.empty());
  // A template may write a message twice, and in another order.
  const auto placed =
      images.placed("<" + second.text() + "|" + first.text() + "|" + second.text() + ">");
  EXPECT_EQ(placed.text, "<b|a|b>");
  EXPECT_EQ(placed.shown, "<b[img-1]|[img-0]a|b[img-1]>");
  ASSERT_EQ(placed.places.size(), 3u);
  EXPECT_EQ(placed.places[0].image, 1u);
  EXPECT_EQ(placed.places[0].at, 2u);
  EXPECT_EQ(placed.places[1].at, 3u);
  EXPECT_EQ(images.space(0).n_positions(), 16 + context::kPictureMarkers);
}

TEST(PromptImages, IgnoreBrokenMarks) {
  PromptImages images(&kPictures);
  Message message{.role = "user", .parts = {ImagePart{png()}}};
  images.add(message);
  std::string mark = message.text();
  mark.resize(mark.size() - 2);  // without its number
  EXPECT_TRUE(images.placed(mark + "99x").places.empty());
  EXPECT_TRUE(images.placed(mark).places.empty());
}

TEST(PromptImages, RefuseInvalidPictures) {
  EXPECT_EQ(why(png()), "");
  EXPECT_EQ(why("hi"), "image 2: the picture format is unknown; use PNG, JPEG, WebP, GIF or BMP");
  EXPECT_EQ(why(""), "image 2: the picture is empty");
  EXPECT_EQ(why(png(1, 201)),
            "image 2: the picture has 1 x 201 pixels: one side is more than 200 times as long as "
            "the other");
  EXPECT_EQ(why(png(1, 200)), "");
}

}  // namespace
}  // namespace billow::api
