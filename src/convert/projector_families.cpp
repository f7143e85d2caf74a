#include <algorithm>

#include "convert/projector_family.h"
#include "convert/projectors/projectors.h"

namespace billow::convert {
namespace {

constexpr std::array kFamilies{
    &kGemma3Projector,   &kGemma4Projector,  &kIdefics3Projector, &kInternVlProjector,
    &kLfm2Projector,     &kLlama4Projector,  &kPixtralProjector,  &kQwen2VlProjector,
    &kQwen25VlProjector, &kQwen3VlProjector, &kQwen35Projector,
};

}  // namespace

std::span<const ProjectorFamily* const> projector_families() noexcept { return kFamilies; }

const ProjectorFamily* find_projector_family(std::string_view class_name,
                                             std::string_view vision_type) noexcept {
  for (const ProjectorFamily* family : kFamilies) {
    const bool is_of_type = family->vision_type.empty() || family->vision_type == vision_type;
    if (is_of_type && std::ranges::find(family->classes, class_name) != family->classes.end())
      return family;
  }
  return nullptr;
}

}  // namespace billow::convert
