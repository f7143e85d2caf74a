//! A jump out of work that cannot continue and cannot be unwound (escape.h).

use std::cell::Cell;
use std::ffi::{c_int, c_void};

extern "C" {
    fn billow_escape_run(
        work: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
        exit: *mut *mut c_void,
    ) -> c_int;
    fn billow_escape_leave(exit: *mut c_void) -> !;
}

/// The target of a thread's jump.
pub struct Exit(Cell<*mut c_void>);

impl Exit {
    pub const fn new() -> Exit {
        Exit(Cell::new(std::ptr::null_mut()))
    }

    /// Calls `work`, which must not panic. Returns false if the work has left by a jump.
    pub fn run<F: FnMut()>(&self, work: &mut F) -> bool {
        unsafe extern "C" fn call<F: FnMut()>(data: *mut c_void) {
            (*data.cast::<F>())()
        }
        let data: *mut F = work;
        // SAFETY: `work` and the place for the exit outlive the call.
        unsafe { billow_escape_run(call::<F>, data.cast(), self.0.as_ptr()) != 0 }
    }

    /// # Safety
    /// Call on the thread of run(), within run(). Rust drops nothing between the two calls: the
    /// code that runs the work must free its memory.
    pub unsafe fn leave(&self) -> ! {
        billow_escape_leave(self.0.get())
    }
}
