// Decodes WebP with libwebp: lossy, lossless and with alpha. Decodes the first frame of an
// animation.
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "image/codec.h"
#include "image/exif.h"

namespace billow::image {
namespace {

const uint8_t* data_of(std::string_view bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

struct Closed {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};
using Demuxer = std::unique_ptr<WebPDemuxer, Closed>;

// Rejects incomplete files.
Demuxer open(std::string_view bytes, const Work& work) {
  const WebPData data{data_of(bytes), bytes.size()};
  Demuxer demuxer(WebPDemux(&data));
  if (demuxer == nullptr) work.fail("its data is broken or ends too early");
  return demuxer;
}

Header header_of(const WebPDemuxer* demuxer) {
  Header header{.size = {WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH),
                         WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT)}};
  WebPChunkIterator chunk;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) != 0) {
    header.orientation =
        orientation_of({reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size});
    WebPDemuxReleaseChunkIterator(&chunk);
  }
  return header;
}

// WebPDemux() has checked that the frame is within the canvas.
bool decode_frame(const WebPIterator& frame, Picture& picture) {
  const auto width = static_cast<size_t>(frame.width);
  const auto height = static_cast<size_t>(frame.height);
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(frame.fragment.bytes, frame.fragment.size, &features) != VP8_STATUS_OK ||
      features.width != frame.width || features.height != frame.height)
    return false;
  std::vector<uint8_t> rgba(width * height * 4);
  if (WebPDecodeRGBAInto(frame.fragment.bytes, frame.fragment.size, rgba.data(), rgba.size(),
                         frame.width * 4) == nullptr)
    return false;
  const size_t stride = size_t{picture.size.width} * 3;
  uint8_t* to = picture.rgb.data() + static_cast<size_t>(frame.y_offset) * stride +
                static_cast<size_t>(frame.x_offset) * 3;
  for (size_t y = 0; y < height; ++y)
    put_on_white(rgba.data() + y * width * 4, width, to + y * stride);
  return true;
}

}  // namespace

Header webp_header(std::string_view bytes, const Work& work) {
  return header_of(open(bytes, work).get());
}

Decoded decode_webp(std::string_view bytes, const Work& work) {
  const Demuxer demuxer = open(bytes, work);
  const Header header = header_of(demuxer.get());
  work.check_size(header.size.width, header.size.height);
  Decoded out{.picture = white(header.size), .orientation = header.orientation};
  WebPIterator frame;
  if (WebPDemuxGetFrame(demuxer.get(), 1, &frame) == 0) work.fail("it has no frame");
  const bool is_decoded = decode_frame(frame, out.picture);
  WebPDemuxReleaseIterator(&frame);
  if (!is_decoded) work.fail("its data is broken or ends too early");
  return out;
}

}  // namespace billow::image
