//! [`FrameWriter`]: frames that are sent.

use super::header_block::{BlockWriter, HeaderBlock};
use super::{FLAG_FIN, VERSION, control};

/// Appends frames to a buffer.
#[derive(Debug, Default)]
pub struct FrameWriter {
    headers: BlockWriter,
}

impl FrameWriter {
    /// Appends the frame by which a client opens a stream.
    pub fn syn_stream(&mut self, id: u32, headers: &HeaderBlock, out: &mut Vec<u8>) {
        let mut payload = id.to_be_bytes().to_vec();
        // No stream that it belongs to, no priority, no slot.
        payload.extend([0; 6]);
        self.headers.write(headers, &mut payload);
        append_control(control::SYN_STREAM, &payload, out);
    }

    /// Appends the reply that accepts a stream.
    pub fn syn_reply(&mut self, id: u32, out: &mut Vec<u8>) {
        let mut payload = id.to_be_bytes().to_vec();
        self.headers.write(&HeaderBlock::default(), &mut payload);
        append_control(control::SYN_REPLY, &payload, out);
    }

    /// Appends data of a stream, which is shorter than 16 MiB.
    pub fn data(&mut self, id: u32, bytes: &[u8], out: &mut Vec<u8>) {
        append_head(id, 0, bytes.len(), out);
        out.extend_from_slice(bytes);
    }

    /// Appends the end of the sender's data of a stream.
    pub fn finish(&mut self, id: u32, out: &mut Vec<u8>) {
        append_head(id, FLAG_FIN, 0, out);
    }

    /// Appends a reset of a stream.
    pub fn reset(&mut self, id: u32, status: u32, out: &mut Vec<u8>) {
        append_control(
            control::RST_STREAM,
            &[id.to_be_bytes(), status.to_be_bytes()].concat(),
            out,
        );
    }

    /// Appends the response to a ping.
    pub fn ping(&mut self, id: u32, out: &mut Vec<u8>) {
        append_control(control::PING, &id.to_be_bytes(), out);
    }

    /// Appends the end of the connection: no further stream is accepted.
    pub fn go_away(&mut self, last_stream: u32, out: &mut Vec<u8>) {
        append_control(
            control::GOAWAY,
            &[last_stream.to_be_bytes(), 0_u32.to_be_bytes()].concat(),
            out,
        );
    }
}

fn append_control(kind: u16, payload: &[u8], out: &mut Vec<u8>) {
    let first = 1 << 31 | u32::from(VERSION) << 16 | u32::from(kind);
    append_head(first, 0, payload.len(), out);
    out.extend_from_slice(payload);
}

fn append_head(first: u32, flags: u8, length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&first.to_be_bytes());
    out.extend_from_slice(&(u32::from(flags) << 24 | length as u32).to_be_bytes());
}
