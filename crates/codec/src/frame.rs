//! JSON watch frames: one event per line.

/// The bytes of a frame besides the event type and the object.
const OVERHEAD_BYTES: usize = r#"{"type":"","object":}"#.len() + 1;

/// Appends one event. The object's bytes are copied once, straight into the buffer.
pub fn write(event: &str, object: &[u8], out: &mut Vec<u8>) {
    out.reserve(OVERHEAD_BYTES + event.len() + object.len());
    out.extend_from_slice(br#"{"type":""#);
    out.extend_from_slice(event.as_bytes());
    out.extend_from_slice(br#"","object":"#);
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
}

/// The length of a frame, for callers that reserve a buffer for several at once.
pub fn length(event: &str, object: &[u8]) -> usize {
    OVERHEAD_BYTES + event.len() + object.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_known_length() {
        let mut out = Vec::new();
        write("ADDED", br#"{"kind":"Pod"}"#, &mut out);
        assert_eq!(out, b"{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\"}}\n");
        assert_eq!(out.len(), length("ADDED", br#"{"kind":"Pod"}"#));
    }

    #[test]
    fn several_events_share_a_buffer() {
        let mut out = Vec::new();
        write("ADDED", b"{}", &mut out);
        write("DELETED", b"{}", &mut out);
        assert_eq!(
            out,
            b"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"DELETED\",\"object\":{}}\n"
        );
    }
}
