//! A list that mostly fits on the stack: a decision looks at the jobs of one node after the other and
//! should allocate nothing for it.

/// Up to `N` items in place; all of them in a vector where there are more.
pub(super) struct Few<T, const N: usize> {
    place: [T; N],
    count: usize,
    more: Vec<T>,
}

impl<T: Copy + Default, const N: usize> Few<T, N> {
    pub fn new() -> Few<T, N> {
        Few {
            place: [T::default(); N],
            count: 0,
            more: Vec::new(),
        }
    }

    pub fn push(&mut self, item: T) {
        if self.count < N {
            self.place[self.count] = item;
        } else {
            if self.more.is_empty() {
                self.more.extend_from_slice(&self.place);
            }
            self.more.push(item);
        }
        self.count += 1;
    }

    pub fn items(&mut self) -> &mut [T] {
        if self.count <= N {
            &mut self.place[..self.count]
        } else {
            &mut self.more
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Few;

    #[test]
    fn items_keep_their_order_beyond_the_room_in_place() {
        let mut few = Few::<u32, 2>::new();
        for item in 0..5 {
            few.push(item);
            let expected: Vec<u32> = (0..=item).collect();
            assert_eq!(few.items(), expected);
        }
    }
}
