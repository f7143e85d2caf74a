// Ends a process together with its parent.
#pragma once

namespace billow::cli {

// Makes the kernel kill this process when its parent ends, even after exec. Throws Error if the
// parent has already ended.
void end_with_parent();

}  // namespace billow::cli
