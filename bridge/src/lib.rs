//! The C boundary. Each exported function turns pointers into slices, runs the work in a session
//! (session.rs), and turns the outcome into a status and a text. Nothing else in this crate is
//! unsafe but the allocator of the sessions and the clock.

mod chat_template;
mod clock;
mod filters;
mod input;
mod keep;
mod mutable_list;
mod python_args;
mod python_methods;
mod python_repr;
mod python_tests;
mod session;
mod slice;
mod source;
mod to_json;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use chat_template::ChatTemplate;
use session::{Failure, Limits, Status};

const OK: i32 = 0;

#[repr(C)]
pub struct BillowText {
    data: *mut u8,
    n_bytes: usize,
}

#[repr(C)]
pub struct BillowLimits {
    n_instructions: u64,
    memory_bytes: u64,
    time_ms: u64,
}

/// The handle: a template that renderings share.
pub struct BillowTemplate {
    template: Arc<ChatTemplate>,
    /// A rendering has cost a thread (session.rs); no other may.
    is_spent: AtomicBool,
}

impl BillowTemplate {
    fn render(&self, input: Vec<u8>, limits: Limits) -> Result<String, Failure> {
        if self.is_spent.load(Ordering::Relaxed) {
            let message = "an earlier rendering of this template needed too much memory";
            return Err(Failure::new(Status::TooLarge, message));
        }
        let template = Arc::clone(&self.template);
        session::run(limits, move |limits| template.render(&input, limits)).inspect_err(|failure| {
            if failure.has_cost_a_thread {
                self.is_spent.store(true, Ordering::Relaxed);
            }
        })
    }
}

impl BillowText {
    fn set(&mut self, text: String) {
        let bytes = text.into_bytes().into_boxed_slice();
        self.n_bytes = bytes.len();
        self.data = if bytes.is_empty() {
            std::ptr::null_mut()
        } else {
            Box::into_raw(bytes).cast()
        };
    }
}

unsafe fn bytes_of<'a>(data: *const u8, n_bytes: usize) -> &'a [u8] {
    if n_bytes == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, n_bytes)
    }
}

unsafe fn limits_of(limits: *const BillowLimits) -> Limits {
    let limits = &*limits;
    Limits {
        n_instructions: limits.n_instructions,
        memory_bytes: usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX),
        time: Duration::from_millis(limits.time_ms),
    }
}

/// No panic may reach C++: one that comes this far is a bug of ours, reported as such.
fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)))
}

/// # Safety
/// As billow_bridge.h says: `source` has `n_source_bytes` bytes; the other pointers are valid.
#[no_mangle]
pub unsafe extern "C" fn billow_template_compile(
    source: *const u8,
    n_source_bytes: usize,
    limits: *const BillowLimits,
    result: *mut *mut BillowTemplate,
    message: *mut BillowText,
) -> i32 {
    chat_template::prepare();
    *result = std::ptr::null_mut();
    (*message).set(String::new());
    let outcome = guarded(|| {
        let source = bytes_of(source, n_source_bytes).to_vec();
        session::run(limits_of(limits), move |_| ChatTemplate::compile(source))
    });
    match outcome {
        Ok(template) => {
            let (template, is_spent) = (Arc::new(template), AtomicBool::new(false));
            *result = Box::into_raw(Box::new(BillowTemplate { template, is_spent }));
            OK
        }
        Err(failure) => {
            (*message).set(failure.message);
            failure.status as i32
        }
    }
}

/// # Safety
/// As billow_bridge.h says: `handle` is a live handle, `input` has `n_input_bytes` bytes, the others
/// are valid.
#[no_mangle]
pub unsafe extern "C" fn billow_template_render(
    handle: *const BillowTemplate,
    input: *const u8,
    n_input_bytes: usize,
    limits: *const BillowLimits,
    text: *mut BillowText,
) -> i32 {
    (*text).set(String::new());
    let outcome = guarded(|| {
        let input = bytes_of(input, n_input_bytes).to_vec();
        (*handle).render(input, limits_of(limits))
    });
    let (status, written) = match outcome {
        Ok(rendering) => (OK, rendering),
        Err(failure) => (failure.status as i32, failure.message),
    };
    (*text).set(written);
    status
}

/// # Safety
/// `handle` is null or from billow_template_compile, and not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn billow_template_free(handle: *mut BillowTemplate) {
    if !handle.is_null() {
        drop(Box::from_raw(handle));
    }
}

/// # Safety
/// `text` is null or was filled in by a call of this library.
#[no_mangle]
pub unsafe extern "C" fn billow_text_free(text: *mut BillowText) {
    if text.is_null() || (*text).data.is_null() {
        return;
    }
    let bytes = std::ptr::slice_from_raw_parts_mut((*text).data, (*text).n_bytes);
    drop(Box::from_raw(bytes));
    (*text).data = std::ptr::null_mut();
    (*text).n_bytes = 0;
}
