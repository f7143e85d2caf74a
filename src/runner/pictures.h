// Makes pictures for the engine from the images of a request. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "context/prompt_image.h"
#include "engine/pictures.h"
#include "vision/rule.h"

namespace billow::runner {

// Decodes and preprocesses the images, one after another. Throws Error that names the image if it
// cannot be decoded or has a size that the model does not support. Pictures of different salts have
// different digests.
std::vector<std::shared_ptr<engine::Picture>> pictures_of(
    const vision::Rule& rule, std::span<const context::PromptImage> images, uint64_t salt = 0);

}  // namespace billow::runner
