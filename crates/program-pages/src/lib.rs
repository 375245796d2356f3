//! Release of the program file's pages that only the start of a process needed.
//!
//! The start executes code and reads data that a running process never uses again: flags, certificates, bootstrap objects,
//! whole tables of type facts. The kernel maps the program file in chunks around each page that is used, and leaves the
//! chunks in the resident set until memory is short. [`release`] unmaps them; what is used again is mapped again from the
//! page cache.
//!
//! This is the only crate with `unsafe` code, in [`release`]. It must never release a region that is writable or has
//! pages of its own: their contents would be lost.

#![allow(unsafe_code, reason = "madvise is unsafe; this crate exists for its one call")]

mod smaps;

use std::path::Path;
use std::{fs, io};

use rustix::mm::{Advice, madvise};

use crate::smaps::MemoryRegion;

/// Unmaps all resident pages of the program file. Returns how many bytes were unmapped.
///
/// The next use of a page maps it again, without input or output as long as the page is in the page cache.
pub fn release() -> io::Result<u64> {
    let program = fs::read_link("/proc/self/exe")?;
    let smaps = fs::read_to_string("/proc/self/smaps")?;
    let regions = smaps::parse(&smaps);
    let mut released = 0;
    for region in regions.iter().filter(|region| is_file_content(region, &program)) {
        let start = std::ptr::with_exposed_provenance_mut(region.addresses.start);
        // SAFETY: the region is private, read-only and has no anonymous pages, so each of its pages equals the page of
        // the file, and reading it after this call returns the same bytes. Nothing makes it writable later: the dynamic
        // loader, which relocates pages, has ended before `main`. The file is the program being executed, which no process
        // may write.
        unsafe { madvise(start, region.addresses.len(), Advice::LinuxDontNeed)? };
        released += region.resident_bytes;
    }
    Ok(released)
}

/// Whether all pages of a region equal those of the program file, and no write can change that.
fn is_file_content(region: &MemoryRegion<'_>, program: &Path) -> bool {
    matches!(region.permissions, "r--p" | "r-xp")
        && region.anonymous_bytes == Some(0)
        && Path::new(region.path) == program
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region<'a>(permissions: &'a str, path: &'a str, anonymous_bytes: Option<u64>) -> MemoryRegion<'a> {
        MemoryRegion {
            addresses: 0x1000..0x3000,
            permissions,
            path,
            resident_bytes: 8192,
            anonymous_bytes,
        }
    }

    #[track_caller]
    fn check(region: &MemoryRegion<'_>, expected: bool) {
        assert_eq!(
            is_file_content(region, Path::new("/bin/server")),
            expected,
            "{region:?}"
        );
    }

    #[test]
    fn code_and_constants_of_the_program_are_file_content() {
        check(&region("r-xp", "/bin/server", Some(0)), true);
        check(&region("r--p", "/bin/server", Some(0)), true);
    }

    #[test]
    fn relocated_constants_have_pages_of_their_own() {
        check(&region("r--p", "/bin/server", Some(4096)), false);
    }

    #[test]
    fn a_mapping_whose_anonymous_pages_are_unknown_is_not_released() {
        check(&region("r--p", "/bin/server", None), false);
    }

    #[test]
    fn writable_and_shared_mappings_are_not_released() {
        check(&region("rw-p", "/bin/server", Some(0)), false);
        check(&region("r--s", "/bin/server", Some(0)), false);
    }

    #[test]
    fn other_files_and_memory_without_a_file_are_not_released() {
        check(&region("r-xp", "/lib/libc.so.6", Some(0)), false);
        check(&region("r--p", "", Some(0)), false);
    }

    #[test]
    fn released_pages_are_read_from_the_file_again() {
        const CONSTANT: &str = include_str!("../testdata/smaps.txt");
        let copy = CONSTANT.to_owned();
        assert!(release().unwrap() > 0);
        assert_eq!(CONSTANT, copy);
    }
}
