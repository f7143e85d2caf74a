#include "arch/vision/picture_encoder.h"

#include <algorithm>
#include <string_view>

#include "arch/vision/picture_families.h"
#include "arch/vision/picture_transformer.h"
#include "base/error.h"
#include "vision/family.h"

namespace billow::arch {

std::unique_ptr<PictureEncoder> load_picture_encoder(const gguf::File& file,
                                                     const LoadOptions& options) {
  const vision::Rule rule = vision::rule_of(file);
  const std::string_view projector = rule.family->projector;
  const auto family = std::ranges::find(picture_families(), projector, &PictureFamily::projector);
  if (family == picture_families().end()) {
    throw Error(ErrorCode::kUnsupported, file.path() + ": clip.projector_type \"" +
                                             std::string(projector) + "\" has no encoder");
  }
  return std::make_unique<PictureTransformer>(family->style(Metadata(file), rule), rule, file,
                                              options);
}

}  // namespace billow::arch
