// Every word that a kernel takes from here is in runtime.h, which stands before it.
#pragma once
