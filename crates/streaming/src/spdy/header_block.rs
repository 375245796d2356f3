//! Header blocks: lists of names and values, compressed by one zlib stream per direction.

use flate2::{Decompress, FlushDecompress};

use super::dictionary::{CHECKSUM, dictionary};
use super::reader::ProtocolError;

/// Maximum length of a header block after decompression.
const MAX_BLOCK_BYTES: usize = 64 << 10;
/// The head of a zlib stream with a preset dictionary: its method and flags.
const ZLIB_HEAD: [u8; 2] = [0x78, 0x20];
/// The flag of a zlib stream that a preset dictionary's checksum follows.
const ZLIB_DICTIONARY_FLAG: u8 = 0x20;
/// The maximum length of a stored block of deflate.
const MAX_STORED_BYTES: usize = 0xffff;

/// Names and values of headers. Names are in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderBlock(pub Vec<(String, String)>);

impl HeaderBlock {
    /// The value of a header; empty if there is none.
    pub fn value(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (count, mut rest) = split_number(bytes)?;
        let mut headers = Vec::new();
        for _ in 0..count {
            let (name, after) = split_text(rest)?;
            let (value, after) = split_text(after)?;
            headers.push((name, value));
            rest = after;
        }
        Some(Self(headers))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = (self.0.len() as u32).to_be_bytes().to_vec();
        for text in self.0.iter().flat_map(|(name, value)| [name, value]) {
            out.extend_from_slice(&(text.len() as u32).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out
    }
}

fn split_number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), rest))
}

fn split_text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = split_number(bytes)?;
    let (text, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((String::from_utf8_lossy(text).into_owned(), rest))
}

/// Decompresses the header blocks of one direction.
#[derive(Default)]
pub struct BlockReader {
    /// `None` until the head of the zlib stream has been read.
    inflate: Option<Decompress>,
}

impl std::fmt::Debug for BlockReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockReader").finish_non_exhaustive()
    }
}

impl BlockReader {
    /// Decompresses and parses the next block.
    pub fn read(&mut self, mut compressed: &[u8]) -> Result<HeaderBlock, ProtocolError> {
        let inflate = match &mut self.inflate {
            Some(inflate) => inflate,
            None => {
                compressed = after_zlib_head(compressed)?;
                self.inflate.insert(inflate_with_dictionary()?)
            }
        };
        let block = decompress(inflate, compressed)?;
        HeaderBlock::parse(&block).ok_or(ProtocolError("header block is malformed"))
    }
}

fn after_zlib_head(bytes: &[u8]) -> Result<&[u8], ProtocolError> {
    let error = ProtocolError("header block has no zlib header");
    let (head, rest) = bytes.split_first_chunk::<2>().ok_or(error.clone())?;
    if head[0] & 0x0f != 8 || u16::from_be_bytes(*head) % 31 != 0 {
        return Err(error);
    }
    if head[1] & ZLIB_DICTIONARY_FLAG == 0 {
        return Ok(rest);
    }
    match split_number(rest) {
        Some((CHECKSUM, rest)) => Ok(rest),
        _ => Err(ProtocolError("header block has an unknown dictionary")),
    }
}

/// A decompressor whose window has the dictionary. It reads the dictionary as a stored block, since this implementation of
/// deflate has no function to set it.
fn inflate_with_dictionary() -> Result<Decompress, ProtocolError> {
    let mut inflate = Decompress::new(false);
    let mut block = Vec::new();
    append_stored(&dictionary(), &mut block);
    decompress(&mut inflate, &block)?;
    Ok(inflate)
}

fn decompress(inflate: &mut Decompress, mut input: &[u8]) -> Result<Vec<u8>, ProtocolError> {
    let mut block = Vec::with_capacity(4096);
    loop {
        if block.len() == block.capacity() {
            if block.len() >= MAX_BLOCK_BYTES {
                return Err(ProtocolError("header block is too long"));
            }
            block.reserve(block.len());
        }
        let (read_before, length_before) = (inflate.total_in(), block.len());
        inflate
            .decompress_vec(input, &mut block, FlushDecompress::Sync)
            .map_err(|_| ProtocolError("header block cannot be decompressed"))?;
        let read = (inflate.total_in() - read_before) as usize;
        input = &input[read..];
        let is_stuck = read == 0 && block.len() == length_before;
        if is_stuck || (input.is_empty() && block.len() < block.capacity()) {
            break;
        }
    }
    match input.is_empty() {
        true => Ok(block),
        false => Err(ProtocolError("header block has bytes after its end")),
    }
}

/// Compresses the header blocks of one direction, by stored blocks: headers are short or absent.
#[derive(Debug, Default)]
pub struct BlockWriter {
    has_begun: bool,
}

impl BlockWriter {
    /// Appends the next block.
    pub fn write(&mut self, headers: &HeaderBlock, out: &mut Vec<u8>) {
        if !self.has_begun {
            out.extend_from_slice(&ZLIB_HEAD);
            out.extend_from_slice(&CHECKSUM.to_be_bytes());
            self.has_begun = true;
        }
        for piece in headers.encode().chunks(MAX_STORED_BYTES) {
            append_stored(piece, out);
        }
        // An empty block, by which decompressors notice that all before it can be returned.
        append_stored(&[], out);
    }
}

/// Appends a stored block of deflate that is not the last.
fn append_stored(bytes: &[u8], out: &mut Vec<u8>) {
    let length = bytes.len() as u16;
    out.push(0);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(headers: &[(&str, &str)]) -> HeaderBlock {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        HeaderBlock(headers.iter().map(owned).collect())
    }

    #[test]
    fn written_blocks_are_read_again_in_order() {
        let (mut writer, mut reader) = (BlockWriter::default(), BlockReader::default());
        for headers in [
            block(&[]),
            block(&[("streamtype", "error"), ("port", "80")]),
            block(&[("a", &"x".repeat(40_000))]),
        ] {
            let mut out = Vec::new();
            writer.write(&headers, &mut out);
            assert_eq!(reader.read(&out), Ok(headers));
        }
    }

    /// Written by zlib with the dictionary: `streamtype: error`, then `streamtype: stdout`.
    #[test]
    fn blocks_of_another_compressor_are_read() {
        let mut reader = BlockReader::default();
        let first = [
            0x78, 0xf9, 0xe3, 0xc6, 0xa7, 0xc2, 0x02, 0xa6, 0x23, 0x46, 0x70, 0x3a, 0x2b, 0x29, 0x4a, 0x4d,
            0xcc, 0x85, 0x16, 0x25, 0xac, 0xa9, 0xa0, 0x80, 0x06, 0x00, 0x00, 0x00, 0xff, 0xff,
        ];
        let second = [
            0xc2, 0x2a, 0x05, 0x4c, 0xcc, 0x29, 0xf9, 0xa5, 0x25, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff,
        ];
        assert_eq!(reader.read(&first), Ok(block(&[("streamtype", "error")])));
        assert_eq!(reader.read(&second), Ok(block(&[("streamtype", "stdout")])));
    }

    #[track_caller]
    fn check_error(compressed: &[u8], expected: &'static str) {
        assert_eq!(
            BlockReader::default().read(compressed),
            Err(ProtocolError(expected))
        );
    }

    #[test]
    fn malformed_blocks_are_errors() {
        check_error(&[], "header block has no zlib header");
        check_error(&[0x78, 0x21, 0, 0], "header block has no zlib header");
        check_error(
            &[0x78, 0x20, 1, 2, 3, 4],
            "header block has an unknown dictionary",
        );
        check_error(&[0x78, 0x01, 0xff, 0xff], "header block cannot be decompressed");
        check_error(&[0x78, 0x01, 0, 0, 0, 0xff, 0xff], "header block is malformed");
        let mut long = vec![0x78, 0x01];
        append_stored(&[0; 0xffff], &mut long);
        append_stored(&[0; 0xffff], &mut long);
        check_error(&long, "header block is too long");
    }
}
