// Decodes GIF with giflib: the first frame, on a canvas of the file's size.
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "image/codec.h"

namespace billow::image {
namespace {

struct Closed {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

class Reader {
 public:
  Reader(std::string_view bytes, const Work& work) : rest_(bytes), work_(work) {
    int error = 0;
    gif_.reset(DGifOpen(this, read, &error));
    if (gif_ == nullptr) fail(error);
  }

  // Some files have no canvas size. Then the frame defines the canvas.
  Size canvas() {
    find_frame();
    const GifImageDesc& frame = gif_->Image;
    const auto edge = [](GifWord canvas, GifWord begin, GifWord length) {
      return static_cast<uint32_t>(std::max(0, canvas > 0 ? canvas : begin + length));
    };
    return {edge(gif_->SWidth, frame.Left, frame.Width),
            edge(gif_->SHeight, frame.Top, frame.Height)};
  }

  Picture decode() {
    const Size size = canvas();
    work_.check_size(size.width, size.height);
    const GifImageDesc& frame = gif_->Image;
    if (frame.Width <= 0 || frame.Height <= 0) work_.fail("its frame has no pixels");
    work_.check_size(static_cast<uint64_t>(frame.Width), static_cast<uint64_t>(frame.Height));
    colors_ = frame.ColorMap != nullptr ? frame.ColorMap : gif_->SColorMap;
    if (colors_ == nullptr) work_.fail("it has no colours");
    Picture picture = white(size);
    // An interlaced frame has its rows in four passes.
    struct Pass {
      GifWord first;
      GifWord step;
    };
    constexpr std::array<Pass, 4> kPasses{{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
    std::vector<GifPixelType> row(static_cast<size_t>(frame.Width));
    for (const Pass& pass : kPasses) {
      const GifWord step = frame.Interlace ? pass.step : 1;
      for (GifWord y = pass.first; y < frame.Height; y += step) read_row(picture, y, row);
      if (!frame.Interlace) break;
    }
    return picture;
  }

 private:
  static int read(GifFileType* gif, GifByteType* to, int n_bytes) {
    auto& self = *static_cast<Reader*>(gif->UserData);
    const size_t n = std::min(self.rest_.size(), static_cast<size_t>(std::max(0, n_bytes)));
    std::memcpy(to, self.rest_.data(), n);
    self.rest_.remove_prefix(n);
    return static_cast<int>(n);
  }

  [[noreturn]] void fail(int error) const {
    const char* text = GifErrorString(error);
    work_.fail(text == nullptr ? "its data is broken" : text);
  }
  void check(int result) const {
    if (result == GIF_ERROR) fail(gif_->Error);
  }

  void find_frame() {
    for (;;) {
      work_.check_time();
      GifRecordType type = UNDEFINED_RECORD_TYPE;
      check(DGifGetRecordType(gif_.get(), &type));
      if (type == IMAGE_DESC_RECORD_TYPE) break;
      if (type == TERMINATE_RECORD_TYPE) work_.fail("it has no frame");
      if (type == EXTENSION_RECORD_TYPE) read_extension();
    }
    check(DGifGetImageDesc(gif_.get()));
  }

  void read_extension() {
    int kind = 0;
    GifByteType* block = nullptr;
    check(DGifGetExtension(gif_.get(), &kind, &block));
    while (block != nullptr) {
      GraphicsControlBlock control{};
      if (kind == GRAPHICS_EXT_FUNC_CODE &&
          DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
        transparent_ = control.TransparentColor;
      check(DGifGetExtensionNext(gif_.get(), &block));
    }
  }

  void read_row(Picture& picture, GifWord y, std::vector<GifPixelType>& row) {
    if (y % 64 == 0) work_.check_time();
    check(DGifGetLine(gif_.get(), row.data(), static_cast<int>(row.size())));
    const GifImageDesc& frame = gif_->Image;
    const int64_t to_y = int64_t{frame.Top} + y;
    if (to_y < 0 || to_y >= picture.size.height) return;
    for (size_t x = 0; x < row.size(); ++x) {
      const int64_t to_x = int64_t{frame.Left} + static_cast<int64_t>(x);
      const int index = row[x];
      if (to_x < 0 || to_x >= picture.size.width || index == transparent_) continue;
      if (index >= colors_->ColorCount) continue;
      const GifColorType& color = colors_->Colors[index];
      uint8_t* to =
          picture.rgb.data() +
          (static_cast<size_t>(to_y) * picture.size.width + static_cast<size_t>(to_x)) * 3;
      to[0] = color.Red;
      to[1] = color.Green;
      to[2] = color.Blue;
    }
  }

  std::string_view rest_;
  const Work& work_;
  std::unique_ptr<GifFileType, Closed> gif_;
  const ColorMapObject* colors_ = nullptr;
  int transparent_ = NO_TRANSPARENT_COLOR;
};

}  // namespace

Header gif_header(std::string_view bytes, const Work& work) {
  return {.size = Reader(bytes, work).canvas()};
}

Decoded decode_gif(std::string_view bytes, const Work& work) {
  return {.picture = Reader(bytes, work).decode()};
}

}  // namespace billow::image
