//! Runs untrusted work on a separate thread with a large stack, a memory budget and a deadline. The
//! stack is large because a template may recurse, and a stack overflow cannot be caught.
//!
//! `overrun` ends most work that needs too much, early and cleanly. All code that Billow adds to the
//! engine calls it. Some work still asks for more than the budget. Rust cannot unwind out of a failed
//! allocation, so the thread then leaves the work by a jump (escape.rs) and ends. Nothing that the work
//! owned is dropped. After the thread has ended, its caller frees all blocks that the work had
//! allocated. This is safe because no other code can reach the blocks: `chat_template::prepare`
//! initialises everything that the engine initialises once, before the first session.
//! A template that misses its deadline runs on until it calls `overrun` or has no fuel. The compiler of
//! grammars does not call `overrun`, so a grammar leaves at its next allocation.
//!
//! The jump (longjmp) skips these parts. No other code can meet an inconsistent state:
//! - Destructors of the frames in between. On Linux, longjmp unwinds nothing, so these frames vanish.
//!   They own only memory of the session, and this memory is freed as blocks.
//! - Shares (`Arc`) of the template's texts and of a vocabulary. Their counts stay too high, so these
//!   objects are never freed. The template of such a rendering is kept (`KEPT` in lib.rs). If the
//!   thread leaves after its deadline and the template was freed before, its texts have no owner.
//! - Locks. The engine's locks belong to values of the session. Of std's own locks, the thread can hold
//!   only that of the panic hook, for reading, while it formats the text of a panic. Nothing locks it
//!   for writing again (`silence_panics`).
//! - One-time initialisation, which would block all other threads. `prepare` does it before.
//! - Variables of the thread. Their destructors run at the end of the thread, before the session's
//!   memory is freed. Those of the engine are vectors, which are consistent at each allocation, and the
//!   registry of values in serialisation, which has at most one entry.
//! - std's count of panics stays too high if a panic was in progress. Other threads then check their own
//!   count, too, which is correct.

use std::alloc::{GlobalAlloc, Layout, System};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::escape::Exit;
use crate::message::one_line;

/// A template can nest a value about as deep as the number of its instructions (a million). The
/// engine compares and prints values recursively, with up to 450 bytes per level. Only touched
/// pages use memory.
const STACK_BYTES: usize = 512 << 20;
/// Max threads that may run past their deadline before new work is refused.
const MAX_LATE: usize = 8;

pub struct Limits {
    pub subject: Subject,
    pub n_instructions: u64,
    pub memory_bytes: usize,
    pub time: Duration,
}

/// The subject of the work in messages. It also decides how the work ends after its deadline: a
/// template calls `overrun`, a grammar leaves at its next allocation.
#[derive(Clone, Copy, PartialEq)]
pub enum Subject {
    Template,
    Grammar,
}

impl Subject {
    const fn name(self) -> &'static str {
        match self {
            Subject::Template => "template",
            Subject::Grammar => "grammar",
        }
    }

    const fn leaves_when_late(self) -> bool {
        matches!(self, Subject::Grammar)
    }

    pub const fn out_of_time(self) -> &'static str {
        match self {
            Subject::Template => "the template takes too long",
            Subject::Grammar => "the grammar takes too long",
        }
    }

    pub const fn out_of_memory(self) -> &'static str {
        match self {
            Subject::Template => "the template needs too much memory",
            Subject::Grammar => "the grammar needs too much memory",
        }
    }
}

/// The values are those of billow_bridge.h; success has no Failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Status {
    Invalid = 1,
    TooLarge = 2,
    Failed = 3,
    Unsupported = 4,
}

#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    pub message: String,
    /// The work left by a jump, so its shared state is never freed.
    pub has_left: bool,
}

impl Failure {
    /// Makes one line of the message, which can quote what the client sent.
    pub fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure {
            status,
            message: one_line(&message.into()),
            has_left: false,
        }
    }

    pub fn of_panic(subject: Subject, panic: &(dyn Any + Send)) -> Failure {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("panic");
        Failure::new(
            Status::Invalid,
            format!("the {} engine failed: {text}", subject.name()),
        )
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Running,
    Finished,
    Late,
}

/// The memory that the work of a session holds. Only the session's thread uses it, and its caller
/// after the thread has ended.
struct Meter {
    budget_bytes: usize,
    used_bytes: usize,
    first: *mut Header,
}

struct Session {
    subject: Subject,
    phase: Mutex<Phase>,
    changed: Condvar,
    late: AtomicBool,
    meter: UnsafeCell<Meter>,
    exit: Exit,
}

// SAFETY: one thread at a time uses `meter` and `exit`, as described above; the other fields are
// synchronised.
unsafe impl Send for Session {}
unsafe impl Sync for Session {}

static N_LATE: AtomicUsize = AtomicUsize::new(0);

/// Number of session threads that have not ended.
static N_RUNNING: Mutex<usize> = Mutex::new(0);
/// Notified after each decrement.
static ENDED: Condvar = Condvar::new();

fn n_running() -> MutexGuard<'static, usize> {
    N_RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread that counts in N_RUNNING until `join_counted`. If the system has no room for
/// another stack, waits for the end of another session, but not longer than `time`. Stacks count in
/// full if `vm.overcommit_memory` is 2.
fn spawn_counted<T, W>(name: &str, work: &Arc<W>, time: Duration) -> io::Result<JoinHandle<T>>
where
    T: Send + 'static,
    W: Fn() -> T + Send + Sync + 'static,
{
    let start = Instant::now();
    let mut running = n_running();
    loop {
        let work = Arc::clone(work);
        let thread = std::thread::Builder::new()
            .name(name.into())
            .stack_size(STACK_BYTES)
            .spawn(move || work());
        let rest = time.saturating_sub(start.elapsed());
        match thread {
            Ok(thread) => {
                *running += 1;
                return Ok(thread);
            }
            Err(error) if *running == 0 || rest.is_zero() => return Err(error),
            Err(_) => {
                let woken = ENDED.wait_timeout(running, rest);
                running = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

fn join_counted<T>(thread: JoinHandle<T>) -> std::thread::Result<T> {
    let result = thread.join();
    *n_running() -= 1;
    ENDED.notify_all();
    result
}

thread_local! {
    // These constants have no destructor, so the allocator may read them at any time of a thread's
    // life. CURRENT: the session whose work runs.
    static CURRENT: Cell<*const Session> = const { Cell::new(std::ptr::null()) };
    // True while the thread is in `guarded`.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    // The session of this thread, until the thread ends.
    static OWN: Cell<*const Session> = const { Cell::new(std::ptr::null()) };
}

impl Session {
    fn new(subject: Subject, budget_bytes: usize) -> Session {
        Session {
            subject,
            phase: Mutex::new(Phase::Running),
            changed: Condvar::new(),
            late: AtomicBool::new(false),
            meter: UnsafeCell::new(Meter {
                budget_bytes,
                used_bytes: 0,
                first: std::ptr::null_mut(),
            }),
            exit: Exit::new(),
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the session's thread.
    fn work<T, F>(&self, limits: &Limits, work: &F) -> Result<T, Failure>
    where
        F: Fn(&Limits) -> Result<T, Failure>,
    {
        let mut outcome = None;
        OWN.set(self);
        CURRENT.set(self);
        let has_returned = self.exit.run(&mut || {
            let result = catch_unwind(AssertUnwindSafe(|| work(limits)));
            outcome = Some(
                result.unwrap_or_else(|panic| Err(Failure::of_panic(limits.subject, &*panic))),
            );
        });
        CURRENT.set(std::ptr::null());
        let mut phase = self.phase();
        if *phase == Phase::Running {
            *phase = Phase::Finished;
            self.changed.notify_all();
        }
        drop(phase);
        match outcome {
            Some(result) if has_returned => {
                // SAFETY: this is the session's thread.
                unsafe { (*self.meter.get()).hand_over() };
                result
            }
            _ => Err(Failure {
                has_left: true,
                ..Failure::new(Status::TooLarge, limits.subject.out_of_memory())
            }),
        }
    }

    /// Frees the memory of work that left by a jump.
    /// # Safety
    /// The session's thread has ended.
    unsafe fn reclaim(&self) {
        (*self.meter.get()).free_all();
    }

    fn must_leave(&self) -> bool {
        self.subject.leaves_when_late() && self.late.load(Ordering::Relaxed)
    }

    /// Waits until the work ends or its time is over. Returns which happened.
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

/// Runs `work` within `limits` and waits for it. Drops what `work` owns even if the work does not
/// return.
pub fn run<T, F>(limits: Limits, work: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: Fn(&Limits) -> Result<T, Failure> + Send + Sync + 'static,
{
    silence_panics();
    if N_LATE.load(Ordering::Relaxed) >= MAX_LATE {
        return Err(Failure::new(
            Status::Failed,
            "too many templates and grammars are still running after their deadline",
        ));
    }
    let (time, subject) = (limits.time, limits.subject);
    let session = Arc::new(Session::new(subject, limits.memory_bytes));
    let shared = Arc::clone(&session);
    let failed = |e| Failure::new(Status::Failed, format!("cannot start a thread: {e}"));
    let work = Arc::new(move || shared.work(&limits, &work));
    let thread = spawn_counted(subject.name(), &work, time).map_err(failed)?;
    let end = move |session: Arc<Session>| {
        let result = join_counted(thread);
        // SAFETY: the thread has ended.
        unsafe { session.reclaim() };
        result.unwrap_or_else(|panic| Err(Failure::of_panic(subject, &*panic)))
    };
    if session.wait(time) != Phase::Late {
        return end(session);
    }
    // Another thread waits for the end of the work.
    std::thread::Builder::new()
        .name(format!("late {}", subject.name()))
        .spawn(move || {
            let _ = end(session);
            N_LATE.fetch_sub(1, Ordering::Relaxed);
        })
        .map_err(failed)?;
    Err(Failure::new(Status::TooLarge, subject.out_of_time()))
}

/// Returns the reason why this thread's work should stop, or None. Runs whenever the engine calls
/// back.
pub fn overrun() -> Option<&'static str> {
    let session = CURRENT.get();
    if session.is_null() {
        return None;
    }
    // SAFETY: CURRENT points to the session of this thread while it is set.
    unsafe {
        let meter = (*session).meter.get();
        if (*session).late.load(Ordering::Relaxed) {
            Some((*session).subject.out_of_time())
        } else if (*meter).used_bytes > (*meter).budget_bytes / 2 {
            Some((*session).subject.out_of_memory())
        } else {
            None
        }
    }
}

/// Calls `work` on this thread without limits. Returns a panic as an error.
pub fn guarded<T>(
    subject: Subject,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    silence_panics();
    let before = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(before);
    result.unwrap_or_else(|panic| Err(Failure::of_panic(subject, &*panic)))
}

/// Disables the default report of panics on standard error, because panics become errors. Replaces
/// the hook of llguidance, which takes a backtrace of each panic.
fn silence_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let _ = llguidance::panic_utils::catch_unwind(|| Ok(()));
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if CURRENT.get().is_null() && !QUIET.get() {
                others(info);
            }
        }));
    });
}

struct MeteredAllocator;

#[global_allocator]
static ALLOCATOR: MeteredAllocator = MeteredAllocator;

/// Precedes each block. The blocks of a session form a list.
struct Header {
    previous: *mut Header,
    next: *mut Header,
    session: *const Session, // counts the block; null: no session
    layout: Layout,
}

impl Header {
    /// Returns the layout of a block with its header, and the offset of the block.
    fn around(layout: Layout) -> Option<(Layout, usize)> {
        let align = layout.align().max(std::mem::align_of::<Header>());
        let offset = std::mem::size_of::<Header>().next_multiple_of(align);
        let n_bytes = layout.size().checked_add(offset)?;
        Some((Layout::from_size_align(n_bytes, align).ok()?, offset))
    }

    unsafe fn of(block: *mut u8) -> *mut Header {
        block.cast::<Header>().sub(1)
    }

    unsafe fn free(header: *mut Header) {
        if let Some((whole, offset)) = Header::around((*header).layout) {
            let block = header.add(1).cast::<u8>();
            System.dealloc(block.sub(offset), whole);
        }
    }
}

impl Meter {
    fn may_add(&self, n_bytes: usize) -> bool {
        self.used_bytes.saturating_add(n_bytes) <= self.budget_bytes
    }

    unsafe fn add(&mut self, header: *mut Header, session: *const Session) {
        (*header).previous = std::ptr::null_mut();
        (*header).next = self.first;
        (*header).session = session;
        if !self.first.is_null() {
            (*self.first).previous = header;
        }
        self.first = header;
        self.used_bytes += (*header).layout.size();
    }

    unsafe fn remove(&mut self, header: *mut Header) {
        let (previous, next) = ((*header).previous, (*header).next);
        if previous.is_null() {
            self.first = next;
        } else {
            (*previous).next = next;
        }
        if !next.is_null() {
            (*next).previous = previous;
        }
        (*header).session = std::ptr::null();
        self.used_bytes -= (*header).layout.size();
    }

    /// Removes all blocks from the list. They outlive the session.
    unsafe fn hand_over(&mut self) {
        while !self.first.is_null() {
            self.remove(self.first);
        }
    }

    unsafe fn free_all(&mut self) {
        while !self.first.is_null() {
            let header = self.first;
            self.remove(header);
            Header::free(header);
        }
    }
}

/// Allocates a block of `layout` with a header from `system`. Respects the budget of this thread's
/// session, if there is one.
unsafe fn metered(layout: Layout, system: impl FnOnce(Layout) -> *mut u8) -> *mut u8 {
    let session = CURRENT.get();
    let meter = (!session.is_null()).then(|| (*session).meter.get());
    if meter.is_some_and(|meter| !(*meter).may_add(layout.size()) || (*session).must_leave()) {
        (*session).exit.leave();
    }
    let base = Header::around(layout).map_or(std::ptr::null_mut(), |(whole, _)| system(whole));
    let Some((_, offset)) = Header::around(layout).filter(|_| !base.is_null()) else {
        if meter.is_some() {
            (*session).exit.leave();
        }
        return std::ptr::null_mut();
    };
    let block = base.add(offset);
    let header = Header::of(block);
    (*header).session = std::ptr::null();
    (*header).layout = layout;
    if let Some(meter) = meter {
        (*meter).add(header, session);
    }
    block
}

// SAFETY: every block comes from System and returns to System with its own layout and that of its
// header. Only the session's thread changes the list, or its caller after the thread has ended.
unsafe impl GlobalAlloc for MeteredAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        metered(layout, |whole| System.alloc(whole))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        metered(layout, |whole| System.alloc_zeroed(whole))
    }

    /// The old block counts until the new block exists, because both exist for a moment.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let Ok(new_layout) = Layout::from_size_align(new_size, layout.align()) else {
            return std::ptr::null_mut();
        };
        let new_block = self.alloc(new_layout);
        if !new_block.is_null() {
            std::ptr::copy_nonoverlapping(block, new_block, layout.size().min(new_size));
            self.dealloc(block, layout);
        }
        new_block
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        let header = Header::of(block);
        let session = (*header).session;
        if !session.is_null() {
            // The session that owns the block runs elsewhere and frees the block.
            if session != OWN.get() {
                return;
            }
            (*(*session).meter.get()).remove(header);
        }
        Header::free(header);
    }
}
