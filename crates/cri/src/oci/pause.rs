//! The image of sandboxes: a program that waits, reaps the processes of the pod, and exits at SIGINT or SIGTERM.

use super::{Content, File, Image};

/// Where the program is loaded.
const BASE: u64 = 0x40_0000;

/// The lengths of the ELF header and of its one program header.
const ELF_HEADER_BYTES: u16 = 64;
const PROGRAM_HEADER_BYTES: u16 = 56;

/// The instructions, for x86-64: block SIGINT, SIGTERM and SIGCHLD (`rt_sigprocmask`); wait for one of them
/// (`rt_sigtimedwait`); at SIGCHLD reap all children (`wait4` with WNOHANG) and wait again; at the others `exit_group(0)`.
#[rustfmt::skip]
const CODE: &[u8] = &[
    0x68, 0x02, 0x40, 0x01, 0x00, 0xb8, 0x0e, 0x00, 0x00, 0x00, 0x31, 0xff, 0x48, 0x89, 0xe6, 0x31,
    0xd2, 0x41, 0xba, 0x08, 0x00, 0x00, 0x00, 0x0f, 0x05, 0xb8, 0x80, 0x00, 0x00, 0x00, 0x48, 0x89,
    0xe7, 0x31, 0xf6, 0x31, 0xd2, 0x41, 0xba, 0x08, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x83, 0xf8, 0x11,
    0x74, 0x0e, 0x83, 0xf8, 0x00, 0x7c, 0x26, 0x31, 0xff, 0xb8, 0xe7, 0x00, 0x00, 0x00, 0x0f, 0x05,
    0xb8, 0x3d, 0x00, 0x00, 0x00, 0x48, 0xc7, 0xc7, 0xff, 0xff, 0xff, 0xff, 0x31, 0xf6, 0xba, 0x01,
    0x00, 0x00, 0x00, 0x45, 0x31, 0xd2, 0x0f, 0x05, 0x83, 0xf8, 0x00, 0x7f, 0xe3, 0xeb, 0xba,
];

/// The sandbox image under this name; `None` on machines other than x86-64, whose sandbox image comes from a registry.
pub fn pause_image(name: &str) -> Option<Image> {
    (std::env::consts::ARCH == "x86_64").then(|| Image {
        names: vec![name.to_owned()],
        entrypoint: vec!["/pause".to_owned()],
        user: "65535:65535".to_owned(),
        files: vec![File {
            path: "pause".to_owned(),
            mode: 0o755,
            content: Content::Bytes(program()),
        }],
        ..Image::default()
    })
}

/// The program as a static ELF file with one segment.
fn program() -> Vec<u8> {
    let headers = u64::from(ELF_HEADER_BYTES + PROGRAM_HEADER_BYTES);
    let size = headers + CODE.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [BASE + headers, u64::from(ELF_HEADER_BYTES), 0] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend([0; 4]);
    for half in [ELF_HEADER_BYTES, PROGRAM_HEADER_BYTES, 1, 0, 0, 0] {
        elf.extend(half.to_le_bytes());
    }
    elf.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [0, BASE, BASE, size, size, 0x1000] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(CODE);
    elf
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_have_the_lengths_that_they_state() {
        let elf = program();
        assert_eq!(elf.len(), 120 + CODE.len());
        assert_eq!(elf[elf.len() - CODE.len()..], *CODE);
    }
}
