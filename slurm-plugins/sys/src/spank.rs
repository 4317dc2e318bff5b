//! SPANK's side: the hooks that Slurm calls, and what they may ask of it.
//!
//! Slurm loads a SPANK plugin into srun, sbatch, salloc, slurmd and slurmstepd, and hands every hook a handle that is good
//! for that call. [`export_spank`](crate::export_spank) makes the symbols that it looks for out of a [`Plugin`].
//!
//! Invariants: no panic leaves a hook, and every hook returns 0. What a prolog, an epilog or `init` returns else drains the
//! node, and so does whatever ends their process: their work is done by a child ([`apart`]). And what `task_init_privileged` returns counts only where plugstack.conf calls the plugin `required`. A task that must
//! not run ends itself instead ([`task`]), as Slurm's own do before their program begins.

use crate::log::{self, write};
use crate::slurm::{
    self, S_CTX_ALLOCATOR, S_CTX_LOCAL, S_CTX_REMOTE, S_CTX_SLURMD, S_JOB_ID, S_JOB_STEPID,
    S_JOB_UID, S_TASK_EXIT_STATUS, S_TASK_PID, SLURM_BATCH_SCRIPT, spank_option, spank_t,
};
use crate::text::{self, c_string};
use ::log::Level;
use std::any::Any;
use std::ffi::{c_char, c_int};
use std::marker::PhantomData;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

/// An option that users have.
#[derive(Debug, Clone, Copy)]
pub struct UserOption {
    /// Without its dashes.
    pub name: &'static str,
    /// What its value is, in a word.
    pub value: &'static str,
    /// For `--help`; at most 4 kB.
    pub usage: &'static str,
}

/// What a plugin does.
pub trait Plugin {
    /// Options of sbatch, salloc and srun.
    fn options() -> Vec<UserOption>;

    /// A user gave an option, by its place in [`Plugin::options`]. `remote`: it has come to the node with the job, and nothing
    /// is to be refused any more.
    ///
    /// # Errors
    /// Why the client is to stop.
    fn given(option: usize, value: &str, remote: bool) -> Result<(), String>;

    /// This is slurmd, which starts. What is called later is called in other processes.
    fn daemon(call: &Call<'_>);

    /// A job begins on this node.
    fn prolog(call: &Call<'_>);

    /// This process is about to become a task.
    ///
    /// # Errors
    /// Why it must not.
    fn task(call: &Call<'_>) -> Result<(), String>;

    /// Slurm has put a task where it belongs, and it has begun no program yet. This is its slurmstepd.
    fn placed(call: &Call<'_>);

    /// This process, a task by now, is about to run its program as its user.
    fn begins(call: &Call<'_>);

    /// A task has ended, and its step is still there.
    fn left(call: &Call<'_>);

    /// A job has ended on this node.
    fn epilog(call: &Call<'_>);
}

/// One call of a hook.
pub struct Call<'a> {
    handle: spank_t,
    arguments: Vec<String>,
    /// The handle is Slurm's, and good for this call.
    lives: PhantomData<&'a ()>,
}

impl Call<'_> {
    /// # Safety
    /// `handle` is what Slurm gave this call, or null; `av` has `ac` entries, each null or a text.
    unsafe fn new(handle: spank_t, ac: c_int, av: *mut *mut c_char) -> Self {
        let count = if av.is_null() { 0 } else { ac.max(0) };
        let arguments = (0..count as usize).filter_map(|index| {
            // SAFETY: `index` is below `ac`, and `av` is not null.
            unsafe { text::read(*av.add(index)) }
        });
        Self {
            arguments: arguments.collect(),
            handle,
            lives: PhantomData,
        }
    }

    /// The value of `key=value` behind the plugin's name in plugstack.conf.
    pub fn argument(&self, key: &str) -> Option<&str> {
        (self.arguments.iter()).find_map(|argument| argument.strip_prefix(key)?.strip_prefix('='))
    }

    /// Slurm's number of the job.
    pub fn job(&self) -> Option<u32> {
        let mut job = 0u32;
        // SAFETY: the handle is this call's; the item takes a pointer to 32 bits, which it fills in before it returns.
        let code = unsafe { slurm::spank_get_item(self.handle, S_JOB_ID, &raw mut job) };
        (code == 0).then_some(job)
    }

    /// User number of the job's owner.
    pub fn user(&self) -> Option<u32> {
        let mut user = 0u32;
        // SAFETY: as above; uid_t has 32 bits.
        let code = unsafe { slurm::spank_get_item(self.handle, S_JOB_UID, &raw mut user) };
        (code == 0).then_some(user)
    }

    /// The process that is to be the task, where one is being started.
    pub fn task(&self) -> Option<i32> {
        let mut pid: c_int = 0;
        // SAFETY: as above; the item takes a pointer to a pid_t, which has 32 bits.
        let code = unsafe { slurm::spank_get_item(self.handle, S_TASK_PID, &raw mut pid) };
        (code == 0 && pid > 0).then_some(pid)
    }

    /// What wait(2) said of the task that has just ended, where that was the job's batch script.
    pub fn batch_script_ended(&self) -> Option<i32> {
        let (mut step, mut status) = (0u32, 0 as c_int);
        // SAFETY: as above; this item takes a pointer to 32 bits, the next one a pointer to an int.
        let is_known = unsafe {
            slurm::spank_get_item(self.handle, S_JOB_STEPID, &raw mut step) == 0
                && slurm::spank_get_item(self.handle, S_TASK_EXIT_STATUS, &raw mut status) == 0
        };
        (is_known && step == SLURM_BATCH_SCRIPT).then_some(status)
    }

    /// Takes a variable out of the task's environment; fine where there is none.
    pub fn unset(&self, name: &str) {
        let name = c_string(name);
        // SAFETY: the handle is this call's; the name is a text, which is only read.
        unsafe { slurm::spank_unsetenv(self.handle, name.as_ptr()) };
    }

    /// Puts a variable into the task's environment.
    pub fn set(&self, name: &str, value: &str) {
        let (name, value) = (c_string(name), c_string(value));
        // SAFETY: the handle is this call's; name and value are texts, which are copied.
        unsafe { slurm::spank_setenv(self.handle, name.as_ptr(), value.as_ptr(), 1) };
    }

    fn register<P: Plugin>(&self, number: usize, option: UserOption) -> Result<(), String> {
        let (name, value) = (c_string(option.name), c_string(option.value));
        let usage = c_string(option.usage);
        let mut made = spank_option {
            name: name.as_ptr().cast_mut(),
            arginfo: value.as_ptr().cast_mut(),
            usage: usage.as_ptr().cast_mut(),
            has_arg: 1,
            val: c_int::try_from(number).unwrap_or(c_int::MAX),
            cb: Some(given::<P>),
        };
        // SAFETY: the handle is this call's, and this is `init`; Slurm copies the option with its texts, and writes nothing.
        match unsafe { slurm::spank_option_register(self.handle, &raw mut made) } {
            0 => Ok(()),
            code => Err(format!("--{} is not known here: {code}", option.name)),
        }
    }
}

/// Tells the user of a client, without the word `error`.
fn tell(line: &str) {
    let line = c_string(line);
    // SAFETY: a constant format for one text that ends with a NUL; Slurm copies it.
    unsafe { slurm::slurm_spank_log(c"libra: %s".as_ptr(), line.as_ptr()) };
}

/// Runs the work; a panic is logged, and what to do in its stead is done.
fn contain<T>(hook: &str, instead: impl FnOnce(String) -> T, work: impl FnOnce() -> T) -> T {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // This library has a std of its own: neither is the hook or the log of the program around it.
        std::panic::set_hook(Box::new(|info| write(Level::Error, &info.to_string())));
        log::install();
    });
    // Unwind safety: nothing outlives a call.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| instead(format!("fault in {hook}: {}", said(payload))))
}

fn said(payload: Box<dyn Any + Send>) -> String {
    let text = (payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_string()))
    .or_else(|| payload.downcast_ref::<String>().cloned());
    // Dropping something unknown could panic once more, outside of the boundary.
    std::mem::forget(payload);
    text.unwrap_or_else(|| "panic".to_string())
}

/// How long a prolog's or an epilog's work may take. By itself it does not take a fourth of it: what it waits for has limits of its own.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the work in a child, and waits for its end: what ends a prolog's or an epilog's process with anything but 0 drains the node, and so may one that
/// does not end. That can be libslurm's `fatal`, which no version initialises there in the same way, no memory (Rust aborts), or a signal. Where there
/// can be no child it is done here.
fn apart(hook: &'static str, work: impl FnOnce()) {
    let mut ends = [-1; 2];
    // SAFETY: two places for two descriptors. Where there are none, the child's end alone is waited for.
    unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    let [from, to] = ends;
    // SAFETY: the child only does the work, which is this library's, and ends without running or flushing anything of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it takes numbers. The child is to go with the parent, which Slurm ends when it takes too long.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        contain(hook, only_log, work);
        // SAFETY: it takes a number.
        unsafe { _exit(0) }
    }
    // SAFETY: the child's end of the pipe, which is ours; no descriptor is no harm.
    unsafe { libc::close(to) };
    match child {
        -1 => contain(hook, only_log, work),
        child => wait(hook, child, from),
    }
    // SAFETY: as above, the other end.
    unsafe { libc::close(from) };
}

/// Waits for a child, which has the other end of this pipe open as long as it lives; without a pipe (-1) for any time.
fn wait(hook: &'static str, child: libc::pid_t, pipe: c_int) {
    let is_late = pipe >= 0 && !closes_in_time(pipe);
    if is_late {
        // SAFETY: a child of ours that nobody has waited for yet.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
    let mut status = 0;
    // SAFETY: a child of ours that nobody else waits for, and a place for its status.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1 {
        if errno() != Some(libc::EINTR) {
            // It has ended, and somebody ignores SIGCHLD.
            return;
        }
    }
    if is_late {
        only_log(format!(
            "{hook} was not done after {} s",
            PATIENCE.as_secs()
        ));
    } else if status != 0 {
        let status = std::process::ExitStatus::from_raw(status);
        only_log(format!("{hook} was broken off: {status}"));
    }
}

/// Waits until nobody has the other end of this pipe open any more. Returns true if that was in time.
fn closes_in_time(pipe: c_int) -> bool {
    let began = Instant::now();
    let mut wanted = libc::pollfd {
        fd: pipe,
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        let left = PATIENCE.saturating_sub(began.elapsed());
        let left = c_int::try_from(left.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: one descriptor, ours, and a place for what was seen of it.
        match unsafe { libc::poll(&raw mut wanted, 1, left) } {
            0 => return false,
            -1 if errno() == Some(libc::EINTR) => {}
            _ => return true,
        }
    }
}

fn errno() -> Option<i32> {
    std::io::Error::last_os_error().raw_os_error()
}

fn only_log(problem: String) {
    write(Level::Error, &problem);
}

/// `slurm_spank_init`.
///
/// # Safety
/// Called by Slurm, with its own arguments.
pub unsafe fn init<P: Plugin>(handle: spank_t, ac: c_int, av: *mut *mut c_char) -> c_int {
    contain("init", only_log, || {
        // SAFETY: Slurm's own arguments.
        let call = unsafe { Call::new(handle, ac, av) };
        // SAFETY: it takes nothing and only reads what Slurm set before it called.
        let context = unsafe { slurm::spank_context() };
        if context == S_CTX_SLURMD {
            P::daemon(&call);
        }
        // slurmstepd must know them too, or it complains of options that it finds with a job.
        if ![S_CTX_ALLOCATOR, S_CTX_LOCAL, S_CTX_REMOTE].contains(&context) {
            return;
        }
        for (number, option) in P::options().into_iter().enumerate() {
            if let Err(problem) = call.register::<P>(number, option) {
                write(Level::Error, &problem);
            }
        }
    });
    0
}

/// An option's callback.
unsafe extern "C" fn given<P: Plugin>(option: c_int, value: *const c_char, remote: c_int) -> c_int {
    let checked = contain("an option", Err, || {
        // SAFETY: Slurm gives the value as a text, or null.
        let value = unsafe { text::read(value) }.unwrap_or_default();
        P::given(
            usize::try_from(option).unwrap_or(usize::MAX),
            &value,
            remote != 0,
        )
    });
    match checked {
        Ok(()) => 0,
        Err(problem) if remote != 0 => {
            write(Level::Error, &problem);
            0
        }
        Err(problem) => {
            tell(&problem);
            -1
        }
    }
}

/// `slurm_spank_job_prolog`.
///
/// # Safety
/// As [`init`].
pub unsafe fn prolog<P: Plugin>(handle: spank_t, ac: c_int, av: *mut *mut c_char) -> c_int {
    apart("the prolog", || {
        // SAFETY: Slurm's own arguments.
        P::prolog(&unsafe { Call::new(handle, ac, av) });
    });
    0
}

/// `slurm_spank_task_post_fork`.
///
/// # Safety
/// As [`init`].
pub unsafe fn placed<P: Plugin>(handle: spank_t, ac: c_int, av: *mut *mut c_char) -> c_int {
    contain("the place of a task", only_log, || {
        // SAFETY: Slurm's own arguments.
        P::placed(&unsafe { Call::new(handle, ac, av) });
    });
    0
}

/// `slurm_spank_task_init`.
///
/// # Safety
/// As [`init`], in the process that is to be the task.
pub unsafe fn begins<P: Plugin>(handle: spank_t, ac: c_int, av: *mut *mut c_char) -> c_int {
    contain("the start of a program", only_log, || {
        // SAFETY: Slurm's own arguments.
        P::begins(&unsafe { Call::new(handle, ac, av) });
    });
    0
}

/// `slurm_spank_task_exit`.
///
/// # Safety
/// As [`init`].
pub unsafe fn left<P: Plugin>(handle: spank_t, ac: c_int, av: *mut *mut c_char) -> c_int {
    contain("the end of a task", only_log, || {
        // SAFETY: Slurm's own arguments.
        P::left(&unsafe { Call::new(handle, ac, av) });
    });
    0
}

/// `slurm_spank_job_epilog`.
///
/// # Safety
/// As [`init`].
pub unsafe fn epilog<P: Plugin>(handle: spank_t, ac: c_int, av: *mut *mut c_char) -> c_int {
    apart("the epilog", || {
        // SAFETY: Slurm's own arguments.
        P::epilog(&unsafe { Call::new(handle, ac, av) });
    });
    0
}

unsafe extern "C" {
    /// Ends the process at once: it shares what `exit` would flush and close with its parent.
    fn _exit(status: c_int) -> !;
}

/// `slurm_spank_task_init_privileged`. Does not return for a task that must not run: it ends with status 1, its job fails,
/// and the node goes on.
///
/// # Safety
/// As [`init`], in the process that is to be the task.
pub unsafe fn task<P: Plugin>(handle: spank_t, ac: c_int, av: *mut *mut c_char) -> c_int {
    // A fault of ours is no reason to end somebody's job.
    let fault = |problem| {
        only_log(problem);
        Ok(())
    };
    let may = contain("the start of a task", fault, || {
        // SAFETY: Slurm's own arguments.
        P::task(&unsafe { Call::new(handle, ac, av) })
    });
    if let Err(problem) = may {
        write(Level::Error, &problem);
        // SAFETY: it takes a number; this process is a child that has begun no program yet.
        unsafe { _exit(1) };
    }
    0
}

/// Exports a [`Plugin`] under the name that Slurm knows it by, with the version of the headers it was built with.
#[macro_export]
macro_rules! export_spank {
    ($plugin:ty, $name:literal) => {
        #[allow(unsafe_code, non_upper_case_globals, missing_docs)]
        mod exported {
            use super::*;
            use std::ffi::{c_char, c_int, c_uint};
            use $crate::slurm::spank_t;

            const NAME: &[u8] = concat!($name, "\0").as_bytes();

            #[unsafe(no_mangle)]
            pub static plugin_name: [u8; NAME.len()] = match NAME.first_chunk() {
                Some(name) => *name,
                None => unreachable!(),
            };
            #[unsafe(no_mangle)]
            pub static plugin_type: [u8; 6] = *b"spank\0";
            #[unsafe(no_mangle)]
            pub static plugin_version: c_uint = $crate::slurm::SLURM_VERSION_NUMBER;
            #[unsafe(no_mangle)]
            pub static spank_plugin_version: c_uint = 1;

            $crate::export_spank!(@hook $plugin, slurm_spank_init, init);
            $crate::export_spank!(@hook $plugin, slurm_spank_job_prolog, prolog);
            $crate::export_spank!(@hook $plugin, slurm_spank_task_init_privileged, task);
            $crate::export_spank!(@hook $plugin, slurm_spank_task_post_fork, placed);
            $crate::export_spank!(@hook $plugin, slurm_spank_task_init, begins);
            $crate::export_spank!(@hook $plugin, slurm_spank_task_exit, left);
            $crate::export_spank!(@hook $plugin, slurm_spank_job_epilog, epilog);
        }
    };
    (@hook $plugin:ty, $symbol:ident, $hook:ident) => {
        /// # Safety
        /// For Slurm alone.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol(
            handle: spank_t,
            ac: c_int,
            av: *mut *mut c_char,
        ) -> c_int {
            // SAFETY: Slurm calls this, as it calls every plugin's.
            unsafe { $crate::spank::$hook::<$plugin>(handle, ac, av) }
        }
    };
}
