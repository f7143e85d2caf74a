//! Untrusted work on a thread of its own: a large stack (a template may recurse, and an overflow
//! cannot be caught), a budget of memory and a deadline.
//!
//! Rust cannot unwind out of a failed allocation, so a thread that is about to exceed its budget is
//! put to sleep for good inside the allocator, after its large blocks were given back; its caller
//! gets an error at once. What stays is a sleeping thread and blocks below LARGE_BYTES. `overrun`,
//! asked by all that Billow adds to the engine, ends most such work earlier and cleanly. A thread
//! that misses its deadline is left to run into `overrun` or the end of its fuel.

use std::alloc::{GlobalAlloc, Layout, System};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// A template can nest a value about as deep as it may execute instructions (a million), and the
/// engine compares and prints recursively, with up to 450 bytes a level. Only pages that are
/// touched take memory.
const STACK_BYTES: usize = 512 << 20;
/// Threads past their deadline that may still run before new work is refused.
const MAX_LATE: usize = 8;
const LARGE_BYTES: usize = 256 << 10;
const MAX_LARGE_BLOCKS: usize = 1024;

pub struct Limits {
    pub n_instructions: u64,
    pub memory_bytes: usize,
    pub time: Duration,
}

/// As in billow_bridge.h; success has no Failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Status {
    Invalid = 1,
    TooLarge = 2,
    Failed = 3,
}

#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    pub message: String,
    /// A thread was put to sleep for good: what caused it had better not run again.
    pub has_cost_a_thread: bool,
}

impl Failure {
    pub fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure {
            status,
            message: message.into(),
            has_cost_a_thread: false,
        }
    }

    pub fn of_panic(panic: &(dyn Any + Send)) -> Failure {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("panic");
        Failure::new(
            Status::Invalid,
            format!("the template engine failed: {text}").replace('\n', " "),
        )
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Running,
    Finished,
    OutOfMemory,
    Late,
}

/// What a session's thread holds. Written by that thread only.
struct Meter {
    budget_bytes: usize,
    used_bytes: usize,
    large: [(*mut u8, Layout); MAX_LARGE_BLOCKS],
    n_large: usize,
}

struct Session {
    phase: Mutex<Phase>,
    changed: Condvar,
    late: AtomicBool,
    meter: UnsafeCell<Meter>,
}

// SAFETY: `meter` is touched by the session's own thread only; the rest is synchronised.
unsafe impl Send for Session {}
unsafe impl Sync for Session {}

static N_LATE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // Without a destructor and constant, so that the allocator may read it at any time of a
    // thread's life.
    static CURRENT: Cell<*const Session> = const { Cell::new(std::ptr::null()) };
}

impl Session {
    fn new(budget_bytes: usize) -> Session {
        Session {
            phase: Mutex::new(Phase::Running),
            changed: Condvar::new(),
            late: AtomicBool::new(false),
            meter: UnsafeCell::new(Meter {
                budget_bytes,
                used_bytes: 0,
                large: [(std::ptr::null_mut(), Layout::new::<u8>()); MAX_LARGE_BLOCKS],
                n_large: 0,
            }),
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the session's part of its thread's life: unless the caller left, tells it `phase`.
    fn end(&self, phase: Phase) {
        CURRENT.set(std::ptr::null());
        let mut current = self.phase();
        if *current == Phase::Late {
            N_LATE.fetch_sub(1, Ordering::Relaxed);
        } else {
            *current = phase;
            self.changed.notify_all();
        }
    }

    /// Called on the session's thread when it may not have what it asks for. Does not allocate.
    unsafe fn give_up(&self) -> ! {
        let meter = self.meter.get();
        CURRENT.set(std::ptr::null());
        for i in 0..(*meter).n_large {
            let (block, layout) = (*meter).large[i];
            System.dealloc(block, layout);
        }
        self.end(Phase::OutOfMemory);
        loop {
            libc::pause();
        }
    }

    /// Waits until the work has ended or its time is over; says which.
    fn wait(&self, time: Duration) -> Phase {
        let start = Instant::now();
        let mut phase = self.phase();
        while *phase == Phase::Running {
            let Some(rest) = time.checked_sub(start.elapsed()) else {
                *phase = Phase::Late;
                self.late.store(true, Ordering::Relaxed);
                N_LATE.fetch_add(1, Ordering::Relaxed);
                break;
            };
            let woken = self.changed.wait_timeout(phase, rest);
            phase = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        *phase
    }
}

/// Runs `work` within `limits` and waits for it.
pub fn run<T, F>(limits: Limits, work: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: FnOnce(&Limits) -> Result<T, Failure> + Send + 'static,
{
    silence_panics();
    if N_LATE.load(Ordering::Relaxed) >= MAX_LATE {
        return Err(Failure::new(
            Status::Failed,
            "too many templates are still running past their time",
        ));
    }
    let time = limits.time;
    let session = Arc::new(Session::new(limits.memory_bytes));
    let shared = Arc::clone(&session);
    let body = move || {
        CURRENT.set(Arc::as_ptr(&shared));
        let result = catch_unwind(AssertUnwindSafe(|| work(&limits)));
        shared.end(Phase::Finished);
        result.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)))
    };
    let thread = std::thread::Builder::new()
        .name("template".into())
        .stack_size(STACK_BYTES)
        .spawn(body)
        .map_err(|e| Failure::new(Status::Failed, format!("cannot start a thread: {e}")))?;
    match session.wait(time) {
        Phase::OutOfMemory => Err(out_of_memory()),
        Phase::Late => Err(Failure::new(Status::TooLarge, OUT_OF_TIME)),
        Phase::Running | Phase::Finished => thread
            .join()
            .unwrap_or_else(|panic| Err(Failure::of_panic(&*panic))),
    }
}

pub const OUT_OF_TIME: &str = "the template takes too long";
pub const OUT_OF_MEMORY: &str = "the template needs too much memory";

fn out_of_memory() -> Failure {
    Failure {
        has_cost_a_thread: true,
        ..Failure::new(Status::TooLarge, OUT_OF_MEMORY)
    }
}

/// Why the work of this thread should stop, if it should. Called wherever the engine calls back.
pub fn overrun() -> Option<&'static str> {
    let session = CURRENT.get();
    if session.is_null() {
        return None;
    }
    // SAFETY: CURRENT points to the session of this thread while it is set.
    unsafe {
        let meter = (*session).meter.get();
        if (*session).late.load(Ordering::Relaxed) {
            Some(OUT_OF_TIME)
        } else if (*meter).used_bytes > (*meter).budget_bytes / 2 {
            Some(OUT_OF_MEMORY)
        } else {
            None
        }
    }
}

/// Panics come back as errors, so the default report on standard error is left out.
fn silence_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if CURRENT.get().is_null() {
                others(info);
            }
        }));
    });
}

struct MeteredAllocator;

#[global_allocator]
static ALLOCATOR: MeteredAllocator = MeteredAllocator;

impl Meter {
    fn may_add(&self, n_bytes: usize) -> bool {
        self.used_bytes.saturating_add(n_bytes) <= self.budget_bytes
    }

    fn add(&mut self, block: *mut u8, layout: Layout) {
        self.used_bytes += layout.size();
        if layout.size() >= LARGE_BYTES && self.n_large < MAX_LARGE_BLOCKS {
            self.large[self.n_large] = (block, layout);
            self.n_large += 1;
        }
    }

    /// A block from before the session may be freed in it, hence the saturation and the search that
    /// may find nothing. It runs forwards: after a realloc in place the old entry stands before the
    /// new one.
    fn remove(&mut self, block: *mut u8, layout: Layout) {
        self.used_bytes = self.used_bytes.saturating_sub(layout.size());
        if layout.size() < LARGE_BYTES {
            return;
        }
        for i in 0..self.n_large {
            if self.large[i].0 == block {
                self.n_large -= 1;
                self.large[i] = self.large[self.n_large];
                return;
            }
        }
    }
}

/// `allocate` within the budget of this thread's session, if it has one.
unsafe fn metered(layout: Layout, allocate: impl FnOnce() -> *mut u8) -> *mut u8 {
    let session = CURRENT.get();
    if session.is_null() {
        return allocate();
    }
    let meter = (*session).meter.get();
    if !(*meter).may_add(layout.size()) {
        (*session).give_up();
    }
    let block = allocate();
    if block.is_null() {
        (*session).give_up();
    }
    (*meter).add(block, layout);
    block
}

// SAFETY: every block comes from and goes to System with its own layout; the meter only counts.
unsafe impl GlobalAlloc for MeteredAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        metered(layout, || System.alloc(layout))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        metered(layout, || System.alloc_zeroed(layout))
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let session = CURRENT.get();
        if session.is_null() {
            return System.realloc(block, layout, new_size);
        }
        let new_layout = Layout::from_size_align_unchecked(new_size, layout.align());
        // The old block counts until the new one is there, as both may exist for a moment.
        let grown = metered(new_layout, || System.realloc(block, layout, new_size));
        (*(*session).meter.get()).remove(block, layout);
        grown
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let session = CURRENT.get();
        if !session.is_null() {
            (*(*session).meter.get()).remove(block, layout);
        }
        System.dealloc(block, layout);
    }
}
