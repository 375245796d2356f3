//! Work inside another network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs the work on a thread of its own in the namespace, since a namespace belongs to a thread.
pub(crate) fn run_inside<T: Send>(
    namespace: &Path,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let namespace = File::open(namespace)?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            work()
        });
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    })
}
