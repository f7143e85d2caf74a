//! The C boundary. Each exported function turns pointers into slices, runs the work in a session
//! (session.rs), and turns the outcome into a status and a text. This file has the templates, and
//! grammar_boundary.rs has the grammars. The only other unsafe code is the allocator of the
//! sessions, their escape and the clock.

mod chat_template;
mod clock;
mod escape;
mod filters;
mod gbnf;
mod grammar;
mod grammar_boundary;
mod input;
mod json_schema;
mod keep;
mod matcher;
mod message;
mod mutable_list;
mod python_args;
mod python_methods;
mod python_repr;
mod python_tests;
mod session;
mod slice;
mod source;
mod to_json;
mod vocabulary;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chat_template::ChatTemplate;
use session::{guarded, Failure, Limits, Subject};

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
    template: ChatTemplate,
    /// True after a rendering has left by a jump, because it may share the template's texts.
    is_shared: AtomicBool,
}

/// Freed handles whose texts a rendering may share. Such texts can never be freed, so the handles
/// are kept.
static KEPT: Mutex<Vec<Box<BillowTemplate>>> = Mutex::new(Vec::new());

impl BillowTemplate {
    fn render(&self, input: Vec<u8>, limits: Limits) -> Result<String, Failure> {
        let rendering = self.template.rendering(input, limits.n_instructions);
        session::run(limits, move |limits| rendering.run(limits)).inspect_err(|failure| {
            if failure.has_left {
                self.is_shared.store(true, Ordering::Relaxed);
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

unsafe fn limits_of(subject: Subject, limits: *const BillowLimits) -> Limits {
    let limits = &*limits;
    Limits {
        subject,
        n_instructions: limits.n_instructions,
        memory_bytes: usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX),
        time: Duration::from_millis(limits.time_ms),
    }
}

/// # Safety
/// See billow_bridge.h: `source` has `n_source_bytes` bytes, and the other pointers are valid.
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
    let outcome = guarded(Subject::Template, || {
        let source = bytes_of(source, n_source_bytes).to_vec();
        session::run(limits_of(Subject::Template, limits), move |_| {
            ChatTemplate::compile(&source)
        })
    });
    match outcome {
        Ok(template) => {
            let is_shared = AtomicBool::new(false);
            *result = Box::into_raw(Box::new(BillowTemplate {
                template,
                is_shared,
            }));
            OK
        }
        Err(failure) => {
            (*message).set(failure.message);
            failure.status as i32
        }
    }
}

/// # Safety
/// See billow_bridge.h: `handle` is a live handle, `input` has `n_input_bytes` bytes, and the other
/// pointers are valid.
#[no_mangle]
pub unsafe extern "C" fn billow_template_render(
    handle: *const BillowTemplate,
    input: *const u8,
    n_input_bytes: usize,
    limits: *const BillowLimits,
    text: *mut BillowText,
) -> i32 {
    (*text).set(String::new());
    let outcome = guarded(Subject::Template, || {
        let input = bytes_of(input, n_input_bytes).to_vec();
        (*handle).render(input, limits_of(Subject::Template, limits))
    });
    let (status, written) = match outcome {
        Ok(rendering) => (OK, rendering),
        Err(failure) => (failure.status as i32, failure.message),
    };
    (*text).set(written);
    status
}

/// # Safety
/// `handle` is null or comes from billow_template_compile, and is not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn billow_template_free(handle: *mut BillowTemplate) {
    if !handle.is_null() {
        let freed = Box::from_raw(handle);
        if freed.is_shared.load(Ordering::Relaxed) {
            KEPT.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(freed);
        }
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
