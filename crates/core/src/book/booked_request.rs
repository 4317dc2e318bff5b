//! A request as the book keeps it: what few jobs use up beside processors and memory stands apart, so that a job takes less memory.

use crate::decision::consumable::Amounts;
use crate::decision::job::{Request, Shape, Terms};

/// What was promised to a job of the book, and what for.
#[derive(Debug, Clone)]
pub(super) struct BookedRequest {
    pub terms: Terms,
    pub shape: BookedShape,
}

/// As [`Shape`], which says what each of these is.
#[derive(Debug, Clone)]
pub(super) struct BookedShape {
    pub chunks: u32,
    pub processors_per_chunk: u32,
    pub memory_per_chunk: u64,
    scatter: bool,
    consumables: Option<Box<Amounts>>,
}

impl BookedShape {
    /// What it uses up beside processors and memory.
    pub fn consumables(&self) -> &Amounts {
        self.consumables.as_deref().unwrap_or(&Amounts::NONE)
    }
}

impl BookedRequest {
    /// The request as it was made.
    pub fn request(&self) -> Request {
        Request {
            terms: self.terms,
            shape: Shape {
                chunks: self.shape.chunks,
                processors_per_chunk: self.shape.processors_per_chunk,
                memory_per_chunk: self.shape.memory_per_chunk,
                scatter: self.shape.scatter,
                consumables: *self.shape.consumables(),
            },
        }
    }
}

impl From<&Request> for BookedRequest {
    fn from(request: &Request) -> BookedRequest {
        let Shape {
            chunks,
            processors_per_chunk,
            memory_per_chunk,
            scatter,
            consumables,
        } = request.shape;
        BookedRequest {
            terms: request.terms,
            shape: BookedShape {
                chunks,
                processors_per_chunk,
                memory_per_chunk,
                scatter,
                consumables: (!consumables.is_empty()).then(|| Box::new(consumables)),
            },
        }
    }
}
