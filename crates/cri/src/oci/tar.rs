//! Tar archives (POSIX ustar): regular files, directories and symbolic links, owned by root at time zero.

/// The unit of a tar archive.
const BLOCK_BYTES: usize = 512;

/// Collects entries.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.header(path, mode, content.len(), (b'0', ""));
        self.bytes.extend(content);
        self.pad();
    }

    pub(super) fn directory(&mut self, path: &str, mode: u32) {
        self.header(&format!("{path}/"), mode, 0, (b'5', ""));
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.header(path, 0o777, 0, (b'2', target));
    }

    /// The archive, with the two empty blocks at its end.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK_BYTES, 0);
        self.bytes
    }

    fn header(&mut self, path: &str, mode: u32, size: usize, (kind, target): (u8, &str)) {
        let mut header = [0; BLOCK_BYTES];
        let mut field = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        field(0, &path[..path.len().min(100)]);
        field(100, &format!("{mode:07o}"));
        field(108, "0000000");
        field(116, "0000000");
        field(124, &format!("{size:011o}"));
        field(136, "00000000000");
        field(148, "        ");
        field(157, &target[..target.len().min(100)]);
        field(257, "ustar\x0000");
        header[156] = kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend(header);
    }

    fn pad(&mut self) {
        self.bytes
            .resize(self.bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_a_header_and_whole_blocks() {
        let mut writer = Writer::default();
        writer.file("bin/a", 0o755, b"abc");
        let archive = writer.finish();
        assert_eq!(archive.len(), 4 * BLOCK_BYTES);
        assert_eq!(&archive[..5], b"bin/a");
        assert_eq!(&archive[124..135], b"00000000003");
        assert_eq!(&archive[BLOCK_BYTES..BLOCK_BYTES + 3], b"abc");
    }
}
